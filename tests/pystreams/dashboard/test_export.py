"""Exports of a range as a file: contents, file name, limits, rejections and cleanup."""

from __future__ import annotations

import base64
import csv
import io
import json
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes, unquote

import pyarrow.parquet as pq
import pytest
import redis

from pystreams.dashboard import endpoints
from pystreams.streams import entries
from tests.pystreams.dashboard.conftest import Dashboard, Started
from tests.suite.waiting import wait_for

_ENGINE = pytest.mark.parametrize("instance", ["engine"], indirect=True)


def _open_files() -> list[str]:
    """Return the paths of export files that this process has open."""
    found = []
    for each in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):  # the file was closed in the meantime
            found.append(str(each.readlink()))
    return [path for path in found if "pystreams-export" in path]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory for temporary files. The fixture fails if export files remain in it or stay open."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    wait_for(lambda: not _open_files(), "the end of all exports")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def viewer(started: Started, folder: Path) -> Dashboard:
    """A read-only dashboard, logged in with the token."""
    found = started()
    assert found.log_in().status_code == 200
    return found


def _exported(viewer: Dashboard, **given: str) -> Any:
    answer = viewer.web.get("/api/export", params=given)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert int(answer.headers["content-length"]) == len(answer.content)
    return answer


def _fill(client: redis.Redis) -> None:
    for at in range(1, 6):
        client.xadd("orders", {"n": at, "city": "Gent" if at % 2 else "Košice"}, id=f"{at}000-0")
    client.xadd("orders", {"n": b"\xff\x00", "more": "x"}, id="6000-0")


@_ENGINE
def test_each_format_has_the_entries_of_the_range(viewer: Dashboard, client: redis.Redis) -> None:
    """`from` is inclusive and `before` is exclusive; bytes that are not UTF-8 are encoded as in `pystreams export`."""
    _fill(client)
    lines = _exported(viewer, stream="orders", format="jsonl")
    found = [json.loads(line) for line in lines.text.splitlines()]
    assert [each["id"] for each in found] == [f"{at}000-0" for at in range(1, 7)]
    assert found[1]["fields"] == {"n": "2", "city": "Košice"}
    assert found[5]["fields"]["n"] == {"base64": base64.b64encode(b"\xff\x00").decode()}
    given = {"from": "2000-0", "before": "1970-01-01T00:00:04Z"}
    table = list(csv.reader(io.StringIO(_exported(viewer, stream="orders", format="csv", **given).text)))
    assert table == [
        ["_id", "_ms", "_seq", "n", "city", "_other"],
        ["2000-0", "2000", "0", "2", "Košice", ""],
        ["3000-0", "3000", "0", "3", "Gent", ""],
    ]
    whole = pq.read_table(io.BytesIO(_exported(viewer, stream="orders").content)).to_pydict()
    assert whole["n"] == ["1", "2", "3", "4", "5", None]
    assert whole["city"][:2] == ["Gent", "Košice"]
    assert (whole["_other"][5], whole["more"][5]) == ([(b"n", b"\xff\x00")], "x")
    assert len(_exported(viewer, stream="orders", **{"from": "-2"}, format="jsonl").text.splitlines()) == 2


@_ENGINE
def test_a_parquet_export_is_one_file(viewer: Dashboard, client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many entries become row groups of one Parquet file, and fields beyond the maximum number of columns are in
    `_other`.
    """
    monkeypatch.setattr("pystreams.files.archives.Parquet.most_entries", 40)
    for at in range(1, 101):
        client.xadd("s", {"n": at, **{f"f{n}": n for n in range(499)}, "m": at}, id=f"{at}-0")
    file = pq.ParquetFile(io.BytesIO(_exported(viewer, stream="s").content))
    assert file.num_row_groups == 3
    found = file.read().to_pydict()
    assert found["n"] == [str(at) for at in range(1, 101)]
    assert (len(found), list(found)[:4], list(found)[-1]) == (504, ["_id", "_ms", "_seq", "n"], "_other")
    assert found["_other"][99] == [(b"m", b"100")]


@_ENGINE
def test_invalid_exports_are_rejected(viewer: Dashboard, client: redis.Redis) -> None:
    """Invalid options, empty ranges and missing streams are rejected, and no file is written."""
    _fill(client)
    client.set("text", "x")
    refused = viewer.refused
    assert refused("export", stream="orders", format="xlsx") == (400, "INVALID_VALUE")
    assert refused("export", stream="orders", **{"from": "nonsense"}) == (400, "INVALID_VALUE")
    assert refused("export", stream="orders", before="+5") == (400, "INVALID_VALUE")
    assert refused("export", stream="orders", **{"from": "5000-0"}, before="2000-0") == (400, "INVALID_VALUE")
    assert refused("export") == (400, "INVALID_VALUE")
    assert refused("export", stream="orders", **{"from": "7000-0"}) == (404, "NO_ENTRIES")
    assert refused("export", stream="nowhere") == (404, "NO_SUCH_STREAM")
    assert refused("export", stream="text")[1] == "NOT_A_STREAM"
    host = viewer.web.get("/api/export", params={"stream": "orders"}, headers={"host": "evil.example.com"})
    assert host.status_code == 421
    assert viewer.web.post("/api/export", json={}, headers={"x-csrf-token": viewer.csrf}).status_code == 405


@_ENGINE
@pytest.mark.parametrize(("limit", "most"), [("MOST_ENTRIES", 3), ("MOST_BYTES", 300)])
def test_too_large_an_export_is_rejected(
    viewer: Dashboard, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    """An export beyond the limit of entries or bytes is rejected."""
    for at in range(1, 6):
        client.xadd("orders", {"n": "x" * 100}, id=f"{at}-0")
    monkeypatch.setattr(endpoints, limit, most)
    assert viewer.refused("export", stream="orders") == (413, "TOO_LARGE")


_NAMES = {
    b"orders:eu-1": "orders_eu-1.csv",
    "заказы".encode(): "заказы.csv",
    b'a"; filename="b.exe\r\nx: y': "a_filename_b.exe_x_y.csv",
    b"../../etc/passwd": "etc_passwd.csv",
    "\u202egpj".encode(): "gpj.csv",
    b"\xff\x00\n": "stream.csv",
    b"": "stream.csv",
    b"x" * 5000: "x" * 60 + ".csv",
}


@_ENGINE
def test_files_have_safe_names(viewer: Dashboard, client: redis.Redis) -> None:
    """The file name is safe for any name of a stream."""
    for name, file in _NAMES.items():
        client.xadd(name, {"n": 1})
        header = _exported(viewer, stream=quote_from_bytes(name), format="csv").headers["content-disposition"]
        assert header.isascii()
        plain, _, full = header.partition("; filename*=UTF-8''")
        assert unquote(full) == file
        assert plain == 'attachment; filename="' + "".join(each if each.isascii() else "_" for each in file) + '"'


@_ENGINE
def test_at_most_two_exports_run_at_a_time(
    viewer: Dashboard, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third simultaneous export is rejected, and a later one succeeds."""
    _fill(client)
    begun, go = threading.Semaphore(0), threading.Event()
    pages = entries.pages

    def slow(*given: Any, **named: Any) -> Any:
        begun.release()
        assert go.wait(20)
        return pages(*given, **named)

    monkeypatch.setattr(entries, "pages", slow)
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(_exported, viewer, stream="orders") for _ in range(2)]
        try:
            for _ in running:
                assert begun.acquire(timeout=20)
            assert viewer.refused("export", stream="orders") == (503, "TOO_MANY_EXPORTS")
        finally:
            go.set()
        assert len({len(each.result().content) for each in running}) == 1
    _exported(viewer, stream="orders")


@_ENGINE
def test_a_logout_stops_the_export(viewer: Dashboard, client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """A logout stops an export while it is written, and frees its slot."""
    _fill(client)
    pages = entries.pages

    def logged_out(*given: Any, **named: Any) -> Any:
        viewer.web.post("/api/logout", json={}, headers={"x-csrf-token": viewer.csrf})
        return pages(*given, **named)

    monkeypatch.setattr(entries, "pages", logged_out)
    assert viewer.refused("export", stream="orders") == (503, "STOPPED")
