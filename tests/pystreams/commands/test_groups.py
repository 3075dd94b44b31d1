"""`pystreams groups`: positions and lag; moving, creating and removing groups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import redis

from pystreams.streams import seeks
from pystreams.streams.seeks import Move
from streamclient.connection import Connection
from tests.pystreams.conftest import Cli, on_engine


@pytest.fixture
def stream(client: redis.Redis) -> redis.Redis:
    """`orders` with ten entries, one per second from 1970 on, and the group `billing`, which has read three of them."""
    for number in range(1, 11):
        client.xadd("orders", {"n": number}, id=f"{number}000-0")
    client.xgroup_create("orders", "billing", 0)
    client.xreadgroup("billing", "c1", {"orders": ">"}, count=3)
    return client


def _only(document: Any) -> Any:
    (group,) = document["groups"]
    return group


def test_groups_are_listed_with_position_and_lag(cli_of: Cli, stream: redis.Redis) -> None:
    """The list has Kafka's columns: position, end, lag, pending entries and consumers."""
    group = _only(cli_of.json("groups", "ls"))
    assert group | {"idle_seconds": None} == {
        "stream": "orders",
        "group": "billing",
        "position": "3000-0",
        "end": "10000-0",
        "lag": 7,
        "lag_exact": True,
        "lag_min": 7,
        "lag_max": 7,
        "lag_seconds": None,
        "pending": 3,
        "consumers": 1,
        "idle_seconds": None,
    }
    assert cli_of("groups", "ls", "orders").splitlines()[1].split() == [
        "orders",
        "billing",
        "3000-0",
        "10000-0",
        "7",
        "3",
        "1",
    ]
    assert cli_of.json("groups", "ls", "x*")["groups"] == []
    assert "[NO_SUCH_STREAM]" in cli_of.failure("groups", "ls", "nope", status=4)


def test_lag_in_seconds_is_the_age_of_the_first_undelivered_entry(cli_of: Cli, stream: redis.Redis) -> None:
    """The lag in seconds is the age of the first undelivered entry, which is 4000-0, four seconds after 1970."""
    seconds, _ = stream.time()
    group = _only(cli_of.json("groups", "lag", "orders"))
    assert seconds - 4 <= group["lag_seconds"] < seconds + 60
    assert (group["lag"], group["status"]) == (7, "ok")  # the consumer was active just now
    stream.xreadgroup("billing", "c1", {"orders": ">"}, noack=True)
    assert _only(cli_of.json("groups", "lag", "--group", "billing"))["lag_seconds"] == 0


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("--fail-above", "7"), 0),
        (("--fail-above", "6"), 3),
        (("--fail-behind", "1h"), 3),
        (("--fail-status",), 0),
        (("--watch", "--interval", "0", "--samples", "3"), 0),
        (("--watch", "--interval", "0", "--fail-above", "1"), 3),
    ],
)
def test_the_exit_status_shows_failed_conditions(
    cli_of: Cli, stream: redis.Redis, words: tuple[str, ...], status: int
) -> None:
    """`groups lag` exits with 3, and stops watching, when one of the `--fail-...` conditions is met."""
    assert cli_of.result("groups", "lag", *words).exit_code == status


def test_progress_is_shown_while_watching(cli_of: Cli, stream: redis.Redis) -> None:
    """With --watch, groups have the rate of delivery, which the first sample cannot have, and the time to catch up."""
    words = ("groups", "lag", "--watch", "--interval", "0", "--samples", "2")
    first, second = (json.loads(line)["groups"][0] for line in cli_of(*words, "-o", "json").splitlines())
    assert (first["delivered_per_second"], first["catch_up_seconds"]) == (None, None)
    assert second["catch_up_seconds"] is None
    assert "CATCH-UP" in cli_of(*words)
    assert "delivered_per_second" not in _only(cli_of.json("groups", "lag"))


def test_lag_has_totals_and_the_worst_groups_first(cli_of: Cli, stream: redis.Redis) -> None:
    """`--sort status` shows the groups that need attention first, and the totals include groups that are not shown."""
    stream.xgroup_create("orders", "alone", 0)
    words = ("groups", "lag", "--sort", "status", "--limit", "1")
    found = cli_of.json(*words)
    assert [(group["group"], group["status"]) for group in found["groups"]] == [("alone", "stop")]
    statuses = {"ok": 1, "warning": 0, "stop": 1, "stall": 0, "rewind": 0}
    assert found["totals"] == {"groups": 2, "lag": 17, "lag_exact": True, "pending": 3, "status": statuses}
    assert "2 groups: 1 ok, 1 stop; lag 17, pending 3" in cli_of(*words)
    assert cli_of.json("groups", "lag", "--limit", "1")["totals"] is None
    assert cli_of.result("groups", "lag", "--fail-status").exit_code == 3


@pytest.mark.parametrize(
    ("to", "position", "lag"),
    [
        ("start", "0-0", 10),
        ("end", "10000-0", 0),
        ("5000-0", "4999-18446744073709551615", 6),
        ("(5000-0", "5000-0", 5),
        ("1970-01-01T00:00:06Z", "5999-18446744073709551615", 5),
        ("+2", "5000-0", 5),
        ("-2", "1000-0", 9),
        ("-50", "0-0", 10),
        ("+50", "10000-0", 0),
    ],
)
def test_a_moved_group_reads_from_its_new_position(
    cli_of: Cli, stream: redis.Redis, to: str, position: str, lag: int
) -> None:
    """`seek` shows both positions, and the group then reads as many entries as the new lag."""
    moved = cli_of.json("groups", "seek", "orders", "billing", "--to", to, "--yes")
    assert (moved["from"], moved["to"], moved["lag_before"]) == ("3000-0", position, 7)
    assert moved["lag_after"] == lag or to not in ("start", "end", "+2", "-2", "-50", "+50")
    read = stream.xreadgroup("billing", "c1", {"orders": ">"})
    assert len(read[0][1] if read else []) == lag


def test_nothing_moves_unless_it_is_confirmed(cli_of: Cli, stream: redis.Redis) -> None:
    """`seek` without a terminal requires `--yes`; `--dry-run` shows the change without making it."""
    words = ("groups", "seek", "orders", "billing", "--to", "end")
    assert "[NOT_CONFIRMED]" in cli_of.failure(*words, status=2)
    preview = cli_of(*words, "--dry-run")
    plan = "Would move the group billing of orders from 3000-0 (lag 7) to 10000-0 (lag 0)"
    assert preview == f"{plan}, which skips 7 undelivered entries.\n"
    assert cli_of.json(*words, "--dry-run")["lag_after"] == 0
    assert _only(cli_of.json("groups", "ls"))["position"] == "3000-0"
    assert cli_of.result("groups", "seek", "orders", "billing").exit_code == 2
    assert "[INVALID_VALUE]" in cli_of.failure(*words[:-1], "soon", status=2)


@pytest.mark.parametrize(
    ("consumer", "to", "warning"),
    [
        ("app-query", "start", "GROUP_BEHIND"),
        ("app-query", "end", "still reads all"),
        ("app-3-0", "start", "shares"),
    ],
)
def test_moving_the_group_of_a_spark_query_causes_a_warning(
    cli_of: Cli, stream: redis.Redis, consumer: str, to: str, warning: str
) -> None:
    """The warning says whether the query continues from its checkpoint or, if it shares the group, from the new
    position.
    """
    stream.xgroup_createconsumer("orders", "billing", consumer)
    result = cli_of.result("groups", "seek", "orders", "billing", "--to", to, "--dry-run")
    assert warning in result.stderr


def test_groups_are_created_and_removed(cli_of: Cli, stream: redis.Redis) -> None:
    """A group can be created N entries before the end; an existing group and a missing stream are errors."""
    cli_of("groups", "create", "orders", "last", "--at", "-2", "--yes")
    assert len(stream.xreadgroup("last", "c", {"orders": ">"})[0][1]) == 2
    assert "[GROUP_EXISTS]" in cli_of.failure("groups", "create", "orders", "last", "--yes", status=1)
    assert "[NO_SUCH_STREAM]" in cli_of.failure("groups", "create", "new", "g", "--yes", status=4)
    cli_of("groups", "rm", "orders", "last", "--dry-run")
    assert cli_of.json("groups", "rm", "orders", "last", "--yes") == {
        "removed": 1,
        "pending": 2,
        "groups": [{"stream": "orders", "group": "last", "pending": 2, "consumers": 1}],
    }
    assert "[NO_SUCH_GROUP]" in cli_of.failure("groups", "rm", "orders", "last", "--yes", status=4)


def test_a_group_does_not_move_beyond_the_end_of_its_stream(cli_of: Cli, stream: redis.Redis) -> None:
    """A future time means the stream's end: the preview says so, and the next added entry is part of the lag."""
    result = cli_of.result("groups", "seek", "orders", "billing", "--to", "2199-01-01", "--dry-run")
    assert "warning: The position is beyond the stream's end. The group stops at 10000-0." in result.stderr
    assert "to 10000-0 (lag 0)" in result.stdout
    assert cli_of.json("groups", "seek", "orders", "billing", "--to", "2199", "--yes")["to"] == "10000-0"
    stream.xadd("orders", {"n": 11}, id="11000-0")
    assert _only(cli_of.json("groups", "lag", "orders"))["lag"] == 1


def test_a_group_beyond_the_end_of_its_stream_is_never_ok(cli_of: Cli, stream: redis.Redis) -> None:
    """The group never receives entries with smaller IDs. Its lag is that of XINFO."""
    stream.xgroup_setid("orders", "billing", "7226582399999-0", entries_read=10)
    for number in (11, 12):
        stream.xadd("orders", {"n": number}, id=f"{number}000-0")
    group = _only(cli_of.json("groups", "lag", "orders"))
    assert (group["lag"], group["lag_exact"], group["lag_seconds"]) == (2, True, None)
    assert group["status"] != "ok"
    cli_of.failure("groups", "lag", "orders", "--fail-above", "1", status=3)
    cli_of.failure("groups", "lag", "orders", "--fail-behind", "1h", status=3)


def test_a_group_is_not_created_beyond_the_end_of_its_stream(cli_of: Cli, stream: redis.Redis) -> None:
    """A future time means the stream's end for a new group as well."""
    cli_of("groups", "create", "orders", "g", "--at", "2199-01-01", "--yes")
    assert cli_of.json("groups", "describe", "orders", "g")["position"] == "10000-0"


def test_the_lag_of_a_missing_group_is_an_error(cli_of: Cli, stream: redis.Redis) -> None:
    """`groups lag --group` fails with NO_SUCH_GROUP if no matching stream has the group."""
    for pattern in ("orders", "*"):
        words = ("groups", "lag", pattern, "--group", "billin", "--fail-above", "0")
        assert "[NO_SUCH_GROUP]" in cli_of.failure(*words, status=4)


@pytest.fixture
def many(stream: redis.Redis) -> redis.Redis:
    """`orders` with the groups `billing`, `audit` and `test-1`, and `other` with two entries and a group whose name is
    not UTF-8.
    """
    stream.xgroup_create("orders", "audit", 0)
    stream.xgroup_create("orders", "test-1", "5000-0")
    for number in (1, 2):
        stream.xadd("other", {"n": number}, id=f"{number}-0")
    stream.xgroup_create("other", b"b\xff", "1-0")
    return stream


def _positions(cli_of: Cli) -> dict[tuple[str, str], str]:
    return {(each["stream"], str(each["group"])): each["position"] for each in cli_of.json("groups", "ls")["groups"]}


def test_many_groups_are_moved_together(cli_of: Cli, many: redis.Redis) -> None:
    """Glob patterns select streams and groups. The preview lists each move, and nothing moves without `--yes`."""
    words = ("groups", "seek", "o*", "--all-groups", "--to", "end")
    before = _positions(cli_of)
    shown = cli_of(*words, "--dry-run").splitlines()
    assert shown[0].split()[:4] == ["STREAM", "GROUP", "POSITION", "LAG"]
    assert shown[2].split() == ["orders", "billing", "3000-0", "7", "10000-0", "0"]
    assert shown[-1] == "Would move 4 groups of 2 streams, which skips 23 undelivered entries."
    assert "[NOT_CONFIRMED]" in cli_of.failure(*words, status=2)
    assert _positions(cli_of) == before
    moved = cli_of.json("groups", "seek", "orders", "test-*", "audit", "--to", "start", "--yes")
    assert [(each["group"], each["to"], each["lag_after"]) for each in moved["groups"]] == [
        ("audit", "0-0", 10),
        ("test-1", "0-0", 10),
    ]
    assert cli_of.json(*words, "--yes")["moved"] == 4
    assert set(_positions(cli_of).values()) == {"10000-0", "2-0"}
    assert cli_of("groups", "seek", "orders", "none*", "--to", "end", "--yes") == "No group matches.\n"


@on_engine
def test_a_wrong_choice_of_groups_moves_nothing(cli_of: Cli, many: redis.Redis) -> None:
    """A missing group, more groups than `--limit`, and contradictory arguments are errors that move nothing."""
    before = _positions(cli_of)
    words = ("--to", "end", "--yes")
    assert "[NO_SUCH_GROUP]" in cli_of.failure("groups", "seek", "o*", "audit", "absent", *words, status=4)
    assert "[TOO_MANY]" in cli_of.failure("groups", "seek", "o*", "--all-groups", "--limit", "3", *words, status=2)
    cli_of.failure("groups", "seek", "orders", *words, status=2)
    cli_of.failure("groups", "seek", "orders", "audit", "--all-groups", *words, status=2)
    cli_of.failure("groups", "seek", "--from-file", "positions.csv", *words, status=2)
    cli_of.failure("groups", "seek", "orders", "--from-file", "positions.csv", "--yes", status=2)
    assert _positions(cli_of) == before


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_positions_are_saved_and_restored(cli_of: Cli, many: redis.Redis, tmp_path: Path, form: str) -> None:
    """Positions saved from `groups ls` are restored with `--from-file`, even for a name that is not UTF-8."""
    before = _positions(cli_of)
    file = tmp_path / f"positions.{form}"
    file.write_text(cli_of("groups", "ls", "-o", form))
    cli_of("groups", "seek", "*", "--all-groups", "--to", "start", "--yes")
    assert set(_positions(cli_of).values()) == {"0-0"}
    assert cli_of("groups", "seek", "--from-file", str(file), "--yes").splitlines()[-1] == "Moved 4 groups."
    assert _positions(cli_of) == before
    many.xgroup_destroy("orders", "audit")
    assert "[NO_SUCH_GROUP]" in cli_of.failure("groups", "seek", "--from-file", str(file), "--yes", status=4)


@on_engine
@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("p.csv", "a,b\n1,2\n", "Row 2"),
        ("p.csv", "stream,group\norders,audit\n", "it has no 'position'"),
        ("p.csv", "stream,group,position\norders,audit,1-0\norders,audit,soon\n", "[MALFORMED_ROW] Row 3"),
        ("p.csv", "stream,group,position\norders,audit,1-0\norders,audit,2-0\n", "a different position"),
        ("p.jsonl", "[" * 100_000, "nested too deeply"),
        ("p.json", '{"groups": 3}', "it has no 'stream'"),
    ],
)
def test_a_hostile_file_of_positions_moves_nothing(
    cli_of: Cli, many: redis.Redis, tmp_path: Path, name: str, content: str, reason: str
) -> None:
    """A missing header, contradictory rows and impossible values are rejected before any group moves."""
    (file := tmp_path / name).write_text(content)
    assert reason in cli_of.failure("groups", "seek", "--from-file", str(file), "--yes", status=1)
    assert _positions(cli_of)["orders", "audit"] == "0-0"


def test_several_groups_are_removed(cli_of: Cli, many: redis.Redis) -> None:
    """The preview shows the pending entries of each group, and the streams keep their entries."""
    words = ("groups", "rm", "orders", "test-?", "billing")
    shown = cli_of(*words, "--dry-run").splitlines()
    assert shown[1].split() == ["orders", "billing", "3", "1"]
    assert shown[-1] == "Would remove 2 groups with 3 pending entries and 1 consumer."
    assert cli_of(*words, "--yes").splitlines()[-1] == "Removed 2 groups."
    assert [each["group"] for each in cli_of.json("groups", "ls", "orders")["groups"]] == ["audit"]
    assert cli_of.json("groups", "rm", "*", "--all-groups", "--yes")["removed"] == 2
    assert (many.xlen("orders"), many.xinfo_groups("orders")) == (10, [])


def test_a_group_that_is_removed_meanwhile_is_reported(
    cli_of: Cli, many: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a group disappears during the move, the others move, a warning names it, and the exit status is 1."""
    lags_after = seeks.lags_after

    def removed_first(connection: Connection, moves: list[Move]) -> Any:
        many.xgroup_destroy("orders", "audit")
        return lags_after(connection, moves)

    monkeypatch.setattr(seeks, "lags_after", removed_first)
    result = cli_of.result("groups", "seek", "orders", "--all-groups", "--to", "end", "--yes")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (1, "Moved 2 groups.")
    assert "the group 'audit' of the stream 'orders' has changed" in result.stderr
    assert _positions(cli_of)["orders", "billing"] == "10000-0"
