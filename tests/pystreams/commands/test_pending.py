"""`pystreams pending` and `pystreams consumers`: entries that were delivered and not acknowledged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import redis

from tests import servers
from tests.pystreams.conftest import Cli


@pytest.fixture
def stream(client: redis.Redis) -> redis.Redis:
    """Ten entries. c1 has the first four, idle for an hour, the second of them delivered five times; c2 has the next
    two.
    """
    for number in range(1, 11):
        client.xadd("orders", {"n": number}, id=f"{number}-0")
    client.xgroup_create("orders", "billing", 0)
    client.xreadgroup("billing", "c1", {"orders": ">"}, count=4)
    client.xreadgroup("billing", "c2", {"orders": ">"}, count=2)
    client.xclaim("orders", "billing", "c1", 0, ["1-0", "3-0", "4-0"], idle=3_600_000, justid=True)
    client.xclaim("orders", "billing", "c1", 0, ["2-0"], idle=3_600_000, retrycount=5, justid=True)
    return client


def _ids(cli_of: Cli, *words: str) -> list[str]:
    lines = cli_of("pending", "ls", "orders", "billing", *words, "--json").splitlines()
    return [json.loads(line)["id"] for line in lines]


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ((), ["1-0", "2-0", "3-0", "4-0", "5-0", "6-0"]),
        (("--idle", "30m"), ["1-0", "2-0", "3-0", "4-0"]),
        (("--deliveries", "5"), ["2-0"]),
        (("--consumer", "c2"), ["5-0", "6-0"]),
        (("--consumer", "nobody"), []),
        (("--limit", "2"), ["1-0", "2-0"]),
        (("2-0", "5-0", "9-0"), ["2-0", "5-0"]),
    ],
)
def test_pending_entries_are_found(cli_of: Cli, stream: redis.Redis, words: tuple[str, ...], ids: list[str]) -> None:
    """`pending ls` filters by consumer, idle time, deliveries and ID."""
    assert _ids(cli_of, *words) == ids


def test_entries_are_acknowledged(cli_of: Cli, stream: redis.Redis) -> None:
    """`pending ack` requires IDs, a filter or `--all`, and leaves other entries pending."""
    words = ("pending", "ack", "orders", "billing")
    assert cli_of.result(*words, "--yes").exit_code == 2
    assert cli_of.result(*words, "5-0", "--all", "--yes").exit_code == 2
    assert "Would acknowledge 4 of 6 pending entries" in cli_of(*words, "--idle", "30m", "--dry-run")
    assert cli_of.json(*words, "--idle", "30m", "--yes") == {"acknowledged": 4, "pending": 2}
    assert cli_of.json(*words, "9-0", "--yes") == {"acknowledged": 0, "pending": 2}
    assert cli_of.json(*words, "--all", "--yes") == {"acknowledged": 2, "pending": 0}


def test_entries_are_claimed_for_another_consumer(cli_of: Cli, stream: redis.Redis) -> None:
    """A claim does not increase the delivery count."""
    words = ("pending", "claim", "orders", "billing", "--to", "c3", "--consumer", "c1", "--yes")
    assert cli_of.json(*words) == {"claimed": 4, "dropped": 0, "pending": 6}
    assert _ids(cli_of, "--consumer", "c3", "--deliveries", "5") == ["2-0"]
    assert _ids(cli_of, "--consumer", "c1") == []


def test_a_claim_tells_how_many_entries_no_longer_exist(cli_of: Cli, stream: redis.Redis) -> None:
    """The plan and the result of a claim have the number of trimmed and deleted entries that leave the pending list."""
    stream.xtrim("orders", minid="3-0", approximate=False)
    stream.xdel("orders", "4-0")
    words = ("pending", "claim", "orders", "billing", "--to", "c3", "--all")
    planned = cli_of(*words, "--dry-run")
    assert "6 of 6 pending entries" in planned
    assert "3 of them no longer exist in the stream and leave the pending list" in planned
    assert cli_of.json(*words, "--yes") == {"claimed": 3, "dropped": 3, "pending": 3}


def test_returned_entries_go_to_the_next_claim(cli_of: Cli, stream: redis.Redis) -> None:
    """Entries returned with `pending nack` are claimed by XAUTOCLAIM, regardless of the idle time required."""
    stream.xclaim("orders", "billing", "c1", 0, ["2-0"], idle=0, retrycount=5, justid=True)
    assert cli_of.json("pending", "nack", "orders", "billing", "2-0", "-y") == {"returned": 1, "pending": 6}
    (entry,) = stream.xpending_range("orders", "billing", "2-0", "2-0", 1)
    assert entry["times_delivered"] == 5
    listed = cli_of("pending", "ls", "orders", "billing", "--idle", "1h")
    assert "2-0" in [line.split()[0] for line in listed.splitlines()]
    assert b"2-0" in stream.xautoclaim("orders", "billing", "c9", 3_600_000, justid=True)


def test_many_pending_entries_are_read_in_pages(cli_of: Cli, stream: redis.Redis) -> None:
    """2,504 pending entries, more than one page, are all listed and acknowledged."""
    with stream.pipeline() as pipe:
        for number in range(11, 2511):
            pipe.xadd("orders", {"n": number}, id=f"{number}-0")
        pipe.execute()
    stream.xreadgroup("billing", "c4", {"orders": ">"})
    assert len(_ids(cli_of, "--consumer", "c4", "--limit", "0")) == 2504
    assert cli_of.json("pending", "ack", "orders", "billing", "--consumer", "c4", "-y")["acknowledged"] == 2504


def test_missing_objects_are_errors(cli_of: Cli, stream: redis.Redis) -> None:
    assert "[NO_SUCH_STREAM]" in cli_of.failure("pending", "ls", "nope", "billing", status=4)
    assert "[NO_SUCH_GROUP]" in cli_of.failure("pending", "ls", "orders", "nope", status=4)
    assert "[NO_SUCH_CONSUMER]" in cli_of.failure("consumers", "rm", "orders", "billing", "c7", "-y", status=4)


def test_idle_consumers_are_removed_unless_they_have_entries(cli_of: Cli, stream: redis.Redis) -> None:
    """Idle consumers with pending entries are removed only with `--with-pending`."""
    stream.xgroup_createconsumer("orders", "billing", "c3")
    words = ("consumers", "rm", "orders", "billing")
    assert cli_of.json(*words, "--idle", "1h", "-y")["removed"] == []
    result = cli_of.result(*words, "--idle", "0", "-y", "--json")
    assert json.loads(result.stdout) == {"removed": ["c3"], "pending": 0}
    assert "c1" in json.loads(result.stderr)["warning"]["message"]
    assert cli_of.json(*words, "c1", "--with-pending", "-y") == {"removed": ["c1"], "pending": 4}
    assert cli_of.result(*words, "-y").exit_code == 2


@pytest.mark.redis
def test_a_returned_entry_is_still_pending(
    engine_process: servers.Running, redis_process: servers.Running, tmp_path: Path
) -> None:
    """A returned entry is listed without a consumer, matches any `--idle`, and can be copied and acknowledged."""
    cli = Cli(engine_process.url, tmp_path)
    here, there = (redis.Redis(port=each.port, protocol=2) for each in (engine_process, redis_process))
    with here, there:
        here.flushall()
        there.flushall()
        for number in (1, 2):
            here.xadd("s", {"n": number}, id=f"{number}-0")
        here.xgroup_create("s", "g", 0)
        here.xreadgroup("g", "c", {"s": ">"})
        cli("pending", "nack", "s", "g", "1-0", "--yes")
        lines = cli("pending", "ls", "s", "g", "--idle", "30d", "--json").splitlines()
        free = {"id": "1-0", "consumer": "", "idle_seconds": None, "deliveries": 1}
        assert [json.loads(line) for line in lines] == [free]
        assert "the first is 1-0, given back" in cli("groups", "describe", "s", "g")
        assert cli.json("copy", "s", "twin") == {"copied": 2, "groups": 1, "pending": 2, "records": 0}
        assert json.loads(cli("pending", "ls", "twin", "g", "1-0", "--json")) == free
        assert cli.json("copy", "s", "--to-url", redis_process.url) == {
            "copied": 2,
            "groups": 1,
            "pending": 2,
            "records": 0,
        }
        (row,) = there.xpending_range("s", "g", "1-0", "1-0", 1)
        assert (row["consumer"], row["times_delivered"]) == (b"pystreams-returned", 1)
        assert row["time_since_delivered"] >= 86_400_000
        assert cli.json("pending", "ack", "s", "g", "--all", "--yes") == {"acknowledged": 2, "pending": 0}
        here.flushall()
        there.flushall()


def test_an_id_means_one_entry_however_it_is_written(cli_of: Cli, stream: redis.Redis) -> None:
    """An ID without a sequence number means number 0, duplicates count once, and invalid IDs are rejected."""
    assert cli_of("pending", "ack", "orders", "billing", "1", "1-0", "1-0", "--yes") == (
        "Acknowledged 1 entry; 5 still pending.\n"
    )
    for words in (("pending", "ack", "orders", "billing", "one"), ("pending", "ls", "orders", "billing", "-")):
        assert "is not an ID such as" in cli_of.failure(*words, status=2)
