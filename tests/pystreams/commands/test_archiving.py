"""`pystreams export`, `import` and `copy`: contents, resumption after an interruption, and rejected files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import redis

from pystreams.streams import transfer
from spark_streams.write.records import WriterId
from tests.pystreams.conftest import Cli, on_engine


@pytest.fixture
def stream(client: redis.Redis) -> redis.Redis:
    """`orders` with 1,200 plain entries. Each hundredth of them is followed by an entry with bytes that are not UTF-8,
    an empty value, line breaks, quotes, and a repeated field.
    """
    with client.pipeline() as pipe:
        for number in range(1, 1201):
            pipe.xadd("orders", {"n": number, "city": "köln"}, id=f"{number}-0")
            if number % 100 == 0:
                odd = ["n", "", "city", 'a\n"b",c\r\n', "raw", b"\xff\x00", b"\xfe", "v", "n", "twice"]
                pipe.execute_command("XADD", "orders", f"{number}-5", *odd)
        pipe.execute()
    return client


def _all(client: redis.Redis, name: str) -> list[Any]:
    """Return the ID and the sorted fields of each entry, including repeated fields."""
    return [(entry[0], sorted(zip(entry[1][0::2], entry[1][1::2], strict=True))) for entry in _raw(client, name)]


def _raw(client: redis.Redis, name: str) -> list[Any]:
    connection = client.connection_pool.get_connection()
    try:
        connection.send_command("XRANGE", name, "-", "+")
        found: list[Any] = connection.read_response()
        return found
    finally:
        client.connection_pool.release(connection)


@pytest.mark.parametrize("name", ["o.jsonl", "o.csv", "o.parquet"])
def test_an_export_can_be_imported_without_loss(cli_of: Cli, stream: redis.Redis, tmp_path: Path, name: str) -> None:
    """An export and import keep every byte and ID of the entries; only the order of an entry's fields may change."""
    file = str(tmp_path / name)
    assert cli_of.json("export", "orders", file)["written"] == 1212
    assert "Would add 1,212" in cli_of("import", file, "copy", "--dry-run")
    assert cli_of.json("import", file, "copy") == {"added": 1212, "skipped": 0}
    assert _all(stream, "copy") == _all(stream, "orders")
    assert "[STREAM_NOT_EMPTY]" in cli_of.failure("import", file, "copy", status=1)
    assert "[FILE_EXISTS]" in cli_of.failure("export", "orders", file, status=1)
    assert cli_of.json("produce", "new", "-f", file) == {"added": 1212}
    assert [words for _, words in _all(stream, "new")] == [words for _, words in _all(stream, "orders")]


@on_engine
@pytest.mark.parametrize("name", ["o.jsonl", "o.csv"])
def test_an_export_resumes_after_its_last_complete_entry(
    cli_of: Cli, stream: redis.Redis, tmp_path: Path, name: str
) -> None:
    """`--resume` cuts off an incomplete last line and appends the missing and newly added entries."""
    file = tmp_path / name
    cli_of("export", "orders", str(file), "--before", "700")
    file.write_bytes(file.read_bytes()[:-7])
    assert cli_of.json("export", "orders", str(file), "--resume")["written"] == 508
    assert cli_of.json("export", "orders", str(file), "--resume")["written"] == 0
    cli_of("import", str(file), "copy")
    assert _all(stream, "copy") == _all(stream, "orders")


@on_engine
def test_ranges_and_columns(cli_of: Cli, stream: redis.Redis, tmp_path: Path) -> None:
    """`--from` is inclusive, `--before` is exclusive, and fields without a column are in `_other`."""
    file = tmp_path / "o.csv"
    cli_of("export", "orders", str(file), "--from", "5", "--before", "7-0", "--columns", "city")
    assert (
        file.read_text() == '_id,_ms,_seq,city,_other\n5-0,5,0,köln,"{""n"": ""5""}"\n6-0,6,0,köln,"{""n"": ""6""}"\n'
    )


def _break(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, calls: int) -> None:
    """Make `owner.name` raise KeyboardInterrupt after this number of calls."""
    whole = getattr(owner, name)
    left = [calls]

    def broken(*arguments: Any) -> Any:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return whole(*arguments)

    monkeypatch.setattr(owner, name, broken)


def test_an_interrupted_import_resumes(
    cli_of: Cli, stream: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import interrupted after two of three batches exits with 130, and the next run adds only
    the remaining rows.
    """
    file = str(tmp_path / "o.jsonl")
    cli_of("export", "orders", file)
    with monkeypatch.context() as patch:
        _break(patch, transfer, "add", calls=2)
        assert cli_of.result("import", file, "copy").exit_code == 130
    assert stream.xlen("copy") == 1000
    assert cli_of.json("import", file, "copy", "--resume") == {"added": 212, "skipped": 1000}
    assert _all(stream, "copy") == _all(stream, "orders")


def test_unsuitable_files_are_not_imported(cli_of: Cli, stream: redis.Redis, tmp_path: Path) -> None:
    """`import --resume` fails if the file lacks the stream's last entry. Rows without an ID or with a smaller ID than
    before are errors.
    """
    file = tmp_path / "o.jsonl"
    cli_of("export", "orders", str(file))
    stream.xadd("copy", {"f": 1}, id="7-7")
    assert "[STREAM_DIFFERS]" in cli_of.failure("import", str(file), "copy", "--resume", status=1)
    for text, reason in [
        ('{"a": 1}\n', "it has no ID"),
        ('{"_id": "x", "a": 1}\n', "'x' is not an ID"),
        ('{"_id": "2-0", "a": 1}\n{"_id": "1-0", "a": 1}\n', "[ID_NOT_RISING]"),
    ]:
        file.write_text(text)
        assert reason in cli_of.failure("import", str(file), "fresh", status=1)
        stream.delete("fresh")
    stream.xadd("fresh", {"a": 1}, id="2-0")
    assert "[ID_NOT_RISING]" in cli_of.failure("import", str(file), "fresh", "--resume", status=1)
    assert "[FILE_UNUSABLE]" in cli_of.failure("import", str(tmp_path / "no.parquet"), "s", status=4)


def test_a_stream_is_copied_with_its_groups(
    cli_of: Cli, stream: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that was interrupted and resumed has the same entries, counters, positions, lags and pending entries."""
    stream.xdel("orders", "3-0")
    stream.xgroup_create("orders", "g", 0)
    stream.xgroup_create("orders", "end", "$")
    stream.xreadgroup("g", "c\udcff".encode("utf-8", "surrogateescape"), {"orders": ">"}, count=20)
    stream.xclaim("orders", "g", "d", 0, ["5-0"], idle=500_000, retrycount=7)
    assert "2 groups" in cli_of("copy", "orders", "copy", "--dry-run")
    with monkeypatch.context() as patch:
        _break(patch, transfer, "add", calls=1)
        assert cli_of.result("copy", "orders", "copy").exit_code == 130
    assert "[STREAM_NOT_EMPTY]" in cli_of.failure("copy", "orders", "copy", status=1)
    cli_of("copy", "orders", "copy", "--resume")
    assert _all(stream, "copy") == _all(stream, "orders")
    original, copy = (cli_of.json("info", name) for name in ("orders", "copy"))
    assert {**original, "stream": "", "bytes": 0, "average_bytes": 0} == {
        **copy,
        "stream": "",
        "bytes": 0,
        "average_bytes": 0,
    }
    original, copy = (
        stream.xpending_range("orders", "g", "-", "+", 100),
        stream.xpending_range("copy", "g", "-", "+", 100),
    )
    for entry in (*original, *copy):
        entry.pop("time_since_delivered")
    assert original == copy
    (entry,) = stream.xpending_range("copy", "g", "5-0", "5-0", 1)
    assert (entry["consumer"], entry["times_delivered"], entry["time_since_delivered"] >= 500_000) == (b"d", 7, True)


def test_pending_entries_deleted_from_the_stream_are_not_copied(cli_of: Cli, stream: redis.Redis) -> None:
    """Pending entries that were deleted from the stream are reported and are not counted as copied."""
    stream.xgroup_create("orders", "g", 0)
    (_, entries), *_ = stream.xreadgroup("g", "c", {"orders": ">"}, count=3)
    stream.xdel("orders", entries[1][0])
    done = cli_of.result("copy", "orders", "copy", "--json")
    assert json.loads(done.stdout)["pending"] == stream.xpending("copy", "g")["pending"] == 2
    assert "1 pending entry that the stream no longer has" in json.loads(done.stderr)["warning"]["message"]


def test_empty_sources_and_different_targets(cli_of: Cli, stream: redis.Redis) -> None:
    """An empty stream is copied with its group. A target with different entries is an error."""
    stream.xgroup_create("empty", "g", "$", mkstream=True)
    assert cli_of.json("copy", "empty", "copied") == {"copied": 0, "groups": 1, "pending": 0, "records": 0}
    assert stream.xinfo_stream("copied")["groups"] == 1
    stream.xadd("other", {"f": 1}, id="1-7")
    assert "[STREAM_DIFFERS]" in cli_of.failure("copy", "orders", "other", "--resume", status=1)
    assert cli_of.result("copy", "orders").exit_code == 2


@pytest.mark.redis
def test_a_stream_is_copied_between_servers(cli_of: Cli, stream: redis.Redis, request: pytest.FixtureRequest) -> None:
    """A copy between Redis and the engine includes the records of the queries that wrote to the stream, and no other
    keys.
    """
    others = [request.getfixturevalue(name) for name in ("engine_process", "redis_process")]
    (other,) = [each for each in others if each.port != stream.connection_pool.connection_kwargs["port"]]
    with redis.Redis(port=other.port, protocol=2) as target:
        target.flushall()
        stream.xgroup_create("orders", "g", "600")
        result = json.loads(cli_of("copy", "orders", "--to-url", other.url, "--json"))
        assert (result["copied"], _all(target, "orders") == _all(stream, "orders")) == (1212, True)
        assert target.xinfo_groups("orders")[0]["last-delivered-id"] == b"600-0"
        assert result["records"] == 0
        target.flushall()
        writer, stranger, name = WriterId("a:b", 3, 0), WriterId("c", 3, 0), b"orders"
        ours = [
            writer.fence_key(name),
            writer.record_key(name),
            writer.roll_key(name),
            writer.staged_key(name, "0f"),
            writer.ledger_key,
        ]
        for key in (*ours, writer.fence_key(b"orders2"), stranger.fence_key(b"other"), stranger.ledger_key):
            stream.hset(key, mapping={"digest": b"\xff\r\n", "batch": 3})
        stream.pexpire(ours[0], 100_000)
        target.hset(ours[1], "old", "gone")
        result = json.loads(cli_of("copy", "orders", "--to-url", other.url, "--json"))
        assert result["records"] == len(ours)
        assert set(target.keys()) == {name, *ours}
        assert all(target.hgetall(key) == {b"digest": b"\xff\r\n", b"batch": b"3"} for key in ours)
        assert [target.pttl(key) > 50_000 for key in ours] == [True, *(False for _ in ours[1:])]
        target.flushall()
        cli_of("copy", "orders", "--to-url", other.url, "--no-records")
        assert target.keys() == [name]
        target.flushall()


@on_engine
@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_large_values_and_empty_streams_survive(cli_of: Cli, client: redis.Redis, tmp_path: Path, form: str) -> None:
    """Values of any size survive an export and import, also in the line at which an export resumes. So do empty
    streams.
    """
    client.xadd("s", {"a": "x" * 200_000, "b": "y" * 1_000}, id="1-0")
    file = str(tmp_path / f"s.{form}")
    cli_of("export", "s", file)
    if form != "parquet":
        assert cli_of.json("export", "s", file, "--resume")["written"] == 0
    cli_of("import", file, "again")
    assert _all(client, "again") == _all(client, "s")
    client.xdel("s", "1-0")
    assert cli_of.json("export", "s", str(tmp_path / f"none.{form}"))["written"] == 0
    assert cli_of.json("import", str(tmp_path / f"none.{form}"), "none") == {"added": 0, "skipped": 0}


@on_engine
@pytest.mark.parametrize("text", ["a note of mine", "a note\nwithout an end", "a note\n\n", '{"id": 5}\nand more'])
@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_file_that_is_not_an_export_is_unchanged(
    cli_of: Cli, stream: redis.Redis, tmp_path: Path, form: str, text: str
) -> None:
    """`export --resume` fails on a file that is not an export, and leaves it unchanged."""
    file = tmp_path / f"notes.{form}"
    file.write_text(text)
    assert "MALFORMED_ROW" in cli_of.failure("export", "orders", str(file), "--resume", status=1)
    assert file.read_text() == text


@on_engine
@pytest.mark.parametrize("columns", ["_id", "_ms", "n,_other", "n,n", b"n,\xff"])
def test_invalid_columns_are_rejected(cli_of: Cli, stream: redis.Redis, tmp_path: Path, columns: str | bytes) -> None:
    """`--columns` rejects reserved names, duplicates, and names that are not UTF-8."""
    file = tmp_path / "s.csv"
    assert "--columns" in cli_of.failure("export", "orders", str(file), "--columns", columns, status=2)
    assert not file.exists()
