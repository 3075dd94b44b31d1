"""`pystreams checkpoint`: a query's offsets compared with its streams and its group."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import fsspec
import pytest
import redis

from spark_streams.read.query.offsets import Offsets
from spark_streams.read.query.offsets import Source as OfQuery
from streamwire.stream_id import StreamId
from tests.pystreams.conftest import Cli


@pytest.fixture
def checkpoint(client: redis.Redis, tmp_path: Path) -> Path:
    """A checkpoint for ten entries: batch 1 is committed up to 6-0, and batch 2 is planned up to 8-0, which is also the
    group's position.
    """
    for number in range(1, 11):
        client.xadd("orders", {"n": number}, id=f"{number}-0")
    client.xgroup_create("orders", "spark", "8-0")
    directory = tmp_path / "checkpoint"
    for name in ("offsets", "commits"):
        (directory / name).mkdir(parents=True)
    (directory / "metadata").write_text('{"id":"d3b0"}')
    for batch, upto in ((1, 6), (2, 8)):
        offsets = Offsets(
            {"orders": StreamId(upto, 0)},
            {"orders": upto},
            source=OfQuery("range", ("orders",), group="spark", query="q"),
        )
        text = f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(offsets.to_json())}\n-\n{{"other": 5}}'
        (directory / "offsets" / str(batch)).write_text(text)
        (directory / "offsets" / f".{batch}.crc").write_bytes(b"crc")
    (directory / "commits" / "1").write_text('v1\n{"nextBatchWatermarkMs":0}')
    return directory


def _only(document: Any) -> Any:
    (row,) = document["streams"]
    return row


def test_offsets_are_shown_with_positions(cli_of: Cli, checkpoint: Path) -> None:
    """`show` prints the committed and planned offsets, the stream's end and the group's position; `diff` finds no
    difference.
    """
    found = cli_of.json("checkpoint", "show", str(checkpoint))
    assert (found["query"], found["batch"], found["committed_batch"]) == ("d3b0", 2, 1)
    assert _only(found) == {
        "source": 0,
        "consume": "range",
        "stream": "orders",
        "committed": "6-0",
        "planned": "8-0",
        "end": "10-0",
        "left_exact": True,
        "left": 4,
        "group": "spark",
        "position": "8-0",
        "difference": None,
    }
    assert "orders" in cli_of("checkpoint", "show", str(checkpoint))
    assert cli_of.json("checkpoint", "diff", str(checkpoint))["streams"] == []


def test_named_sources_are_shown(cli_of: Cli, checkpoint: Path) -> None:
    """In a checkpoint of version 2, which Spark writes for named sources, a source has its name."""
    for path in (checkpoint / "offsets").glob("[0-9]*"):
        version, settings, offset, void, other = path.read_text().splitlines()
        assert (version, void) == ("v1", "-")
        path.write_text(f"v2\n{settings}\nusers:{void}\nclicks:{offset}\n0:{other}")
    found = _only(cli_of.json("checkpoint", "show", str(checkpoint)))
    assert (found["source"], found["committed"], found["planned"]) == ("clicks", "6-0", "8-0")


def test_a_checkpoint_may_be_in_any_store(cli_of: Cli, checkpoint: Path) -> None:
    """An fsspec URL and a file URL show the same checkpoint as a path."""
    store = fsspec.filesystem("memory")
    for file in checkpoint.rglob("*"):
        if file.is_file():
            store.pipe_file(f"/bucket/c/{file.relative_to(checkpoint)}", file.read_bytes())
    try:
        here = cli_of.json("checkpoint", "show", str(checkpoint))
        assert cli_of.json("checkpoint", "show", "memory://bucket/c") == here
        assert cli_of.json("checkpoint", "show", f"file://{checkpoint}") == here
        assert "[NO_CHECKPOINT]" in cli_of.failure("checkpoint", "show", "memory://bucket/d", status=4)
    finally:
        store.rm("/bucket", recursive=True)


def test_an_unusable_store_is_an_error(cli_of: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the unknown URL scheme or the missing package, and shows no password."""
    error = cli_of.failure("checkpoint", "show", "nothing://user:hush@host/c", status=4)
    assert ("[FILE_UNUSABLE]" in error, "nothing" in error, "hush" in error) == (True, True, False)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert "pip install 'pystreams-spark[files]'" in cli_of.failure("checkpoint", "show", "s3://bucket/c", status=1)


@pytest.mark.parametrize(
    ("command", "difference"),
    [
        ("XGROUP SETID orders spark 5-0", "GROUP_BEHIND"),
        ("XGROUP SETID orders spark 10-0", "ahead"),
        ("XGROUP DESTROY orders spark", "creates it again"),
        ("XTRIM orders MAXLEN 1", "1 entry removed unread: ENTRIES_LOST"),
        ("DEL orders", "STREAM_LOST"),
    ],
)
def test_differences_are_named_and_exit_with_3(
    cli_of: Cli, checkpoint: Path, client: redis.Redis, command: str, difference: str
) -> None:
    """`diff` exits with 3 and describes each difference, with the error that it would cause in the query."""
    client.execute_command(*command.split())
    result = cli_of.result("checkpoint", "diff", str(checkpoint), "--json")
    assert result.exit_code == 3
    assert difference in _only(json.loads(result.stdout))["difference"]


def test_invalid_checkpoints_are_errors(cli_of: Cli, checkpoint: Path) -> None:
    assert "[NO_CHECKPOINT]" in cli_of.failure("checkpoint", "show", str(checkpoint / "commits"), status=4)
    (checkpoint / "offsets" / "2").write_text("v3\n{}\n{}")
    assert "its version is 'v3'" in cli_of.failure("checkpoint", "show", str(checkpoint), status=1)
    (checkpoint / "offsets" / "2").write_text('v1\n{}\n{"version": 4, "streams": {"a": "x"}}')
    assert "[CHECKPOINT_MALFORMED]" in cli_of.failure("checkpoint", "show", str(checkpoint), status=1)
    (checkpoint / "offsets" / "2").write_text("v1\n{}\n{}")
    assert "none of its sources has the format pystreams" in cli_of.failure(
        "checkpoint", "show", str(checkpoint), status=1
    )
