"""XGROUP, XINFO GROUPS and XINFO CONSUMERS: groups and consumers are created, changed and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import hand_clock, since
from tests.harness.replies import ANY, NOT_AN_INTEGER, OK, Error, Map, Streams, entries

NEEDS_KEY = Error(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option "
    "to create an empty stream automatically."
)
BUSY = Error("BUSYGROUP Consumer Group name already exists")
ENTRIES_READ = Error("ERR value for ENTRIESREAD must be positive or -1")


def no_group(group: str = "none", key: str = "s") -> Error:
    return Error(f"NOGROUP No such consumer group '{group}' for key name '{key}'")


def groups(server: Server, key: str = "s") -> list[dict[bytes, Any]]:
    """Return the rows of XINFO GROUPS as dicts, in RESP2 and in RESP3."""
    reply = server.run(f"XINFO GROUPS {key}")
    return [row if isinstance(row, dict) else dict(zip(row[::2], row[1::2], strict=True)) for row in reply]


@pytest.fixture
def stream(server: Server) -> Server:
    """Return a server with a stream s that has 1-0 and 2-0 and no group."""
    server.given("XADD s 1-0 f 1", "XADD s 2-0 f 2")
    return server


def group(name: str, consumers: int, pending: int, last: str, read: int | None, lag: int | None) -> Map:
    """Return an expected row of XINFO GROUPS."""
    return Map(
        {
            "name": name,
            "consumers": consumers,
            "pending": pending,
            "last-delivered-id": last,
            "entries-read": read,
            "lag": lag,
        }
    )


@pytest.mark.parametrize(
    ("command", "row"),
    [
        ("XGROUP CREATE s g 0", group("g", 0, 0, "0-0", None, 2)),
        ("XGROUP CREATE s g 1-0", group("g", 0, 0, "1-0", None, 1)),
        ("XGROUP CREATE s g $", group("g", 0, 0, "2-0", None, 0)),
        ("XGROUP CREATE s g 2-0", group("g", 0, 0, "2-0", None, 0)),
        ("XGROUP CREATE s g 1-5", group("g", 0, 0, "1-5", None, None)),
        ("XGROUP CREATE s g 9-9", group("g", 0, 0, "9-9", None, None)),
        ("XGROUP CREATE s g 1-0 ENTRIESREAD 1", group("g", 0, 0, "1-0", 1, 1)),
        ("XGROUP CREATE s g 0 ENTRIESREAD 0", group("g", 0, 0, "0-0", 0, 2)),
        ("XGROUP CREATE s g 1-0 ENTRIESREAD -1", group("g", 0, 0, "1-0", None, 1)),
        ("XGROUP CREATE s g 0 MKSTREAM", group("g", 0, 0, "0-0", None, 2)),
        ("xgroup create s g 0 mkstream entriesread 2", group("g", 0, 0, "0-0", 2, ANY)),
    ],
)
def test_creating(stream: Server, command: str, row: Map) -> None:
    """CREATE makes a group at an ID; its entries-read is the value of ENTRIESREAD, or null."""
    stream.expect(command, OK)
    stream.expect("XINFO GROUPS s", [row])


def test_creating_twice(stream: Server) -> None:
    """Creating an existing group is an error and leaves it unchanged."""
    stream.given("XGROUP CREATE s g 1-0")
    stream.expect("XGROUP CREATE s g 0", BUSY)
    stream.expect("XGROUP CREATE s g 0 MKSTREAM", BUSY)
    assert groups(stream)[0][b"last-delivered-id"] == b"1-0"


def test_mkstream(server: Server) -> None:
    """MKSTREAM makes an empty stream if the key is missing; without MKSTREAM, or with an error, no stream is made."""
    server.expect("XGROUP CREATE s g $ MKSTREAM ENTRIESREAD -2", ENTRIES_READ)
    server.expect("XGROUP CREATE s g x MKSTREAM", Error("ERR Invalid stream ID specified as stream command argument"))
    server.expect("EXISTS s", 0)
    server.expect("XGROUP CREATE s g $ MKSTREAM", OK)
    server.expect("TYPE s", "stream")
    server.expect("XLEN s", 0)


def test_no_key(server: Server) -> None:
    """XGROUP on a missing key fails with an error that mentions MKSTREAM."""
    for command in [
        "CREATE s g $",
        "SETID s g $",
        "DESTROY s g",
        "CREATECONSUMER s g c",
        "DELCONSUMER s g c",
        "CREATE s g $ ENTRIESREAD 5",
    ]:
        server.expect(f"XGROUP {command}", NEEDS_KEY)
        server.expect("EXISTS s", 0)


@pytest.mark.parametrize("command", ["SETID s none 0", "CREATECONSUMER s none c", "DELCONSUMER s none c"])
def test_no_group(stream: Server, command: str) -> None:
    """The error for a missing group names the group and the key."""
    stream.expect(f"XGROUP {command}", no_group())


@pytest.mark.parametrize(("value", "reply"), [("-2", ENTRIES_READ), ("x", NOT_AN_INTEGER), ("1.5", NOT_AN_INTEGER)])
@pytest.mark.parametrize("command", ["CREATE s new 0", "SETID s g 0"])
def test_entries_read_is_checked(stream: Server, command: str, value: str, reply: Error) -> None:
    """ENTRIESREAD must be an integer of -1 or more."""
    stream.given("XGROUP CREATE s g 0")
    stream.expect(f"XGROUP {command} ENTRIESREAD {value}", reply)
    assert len(groups(stream)) == 1


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("XGROUP CREATE s g 0 MKSTREAM MKSTREAM ENTRIESREAD 0", "CREATE"),
        ("XGROUP SETID s g 0 ENTRIESREAD 0 ENTRIESREAD 1", "SETID"),
    ],
)
def test_too_many_options(stream: Server, command: str, name: str) -> None:
    """A command with more arguments than all options could have is rejected before its ID is parsed."""
    stream.given("XGROUP CREATE s g 0")
    text = f"ERR unknown subcommand or wrong number of arguments for '{name}'. Try XGROUP HELP."
    stream.expect(command, Error(text))
    stream.expect(command.replace(" 0 ", " x ", 1), Error(text))


def test_destroying(stream: Server) -> None:
    """DESTROY returns 1 for an existing group and 0 for a missing one, and removes its pending entries."""
    stream.given("XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >")
    stream.expect("XGROUP DESTROY s g", 1)
    stream.expect("XGROUP DESTROY s g", 0)
    stream.expect("XINFO GROUPS s", [])
    stream.given("XGROUP CREATE s g 0")
    stream.expect("XPENDING s g", [0, None, None, None])


def test_setting_the_id(stream: Server) -> None:
    """SETID moves a group forward and back and keeps its pending entries."""
    stream.given("XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >")
    stream.expect("XGROUP SETID s g 1-0", OK)
    stream.expect("XINFO GROUPS s", [group("g", 1, 2, "1-0", None, 1)])
    stream.expect("XGROUP SETID s g $", OK)
    stream.expect("XGROUP SETID s g 0 ENTRIESREAD 1", OK)
    assert groups(stream)[0][b"entries-read"] == 1
    stream.expect("XREADGROUP GROUP g c STREAMS s >", Streams({"s": entries("1-0 f 1", "2-0 f 2")}))
    stream.expect("XPENDING s g", [2, "1-0", "2-0", [["c", "2"]]])


def test_consumers(stream: Server) -> None:
    """CREATECONSUMER makes a consumer once; DELCONSUMER deletes it and returns its number of pending entries."""
    stream.given("XGROUP CREATE s g 0")
    stream.expect("XGROUP CREATECONSUMER s g c", 1)
    stream.expect("XGROUP CREATECONSUMER s g c", 0)
    stream.expect("XGROUP DELCONSUMER s g c", 0)
    stream.expect("XGROUP DELCONSUMER s g c", 0)
    stream.given("XREADGROUP GROUP g c COUNT 1 STREAMS s >", "XREADGROUP GROUP g d STREAMS s >")
    stream.expect("XGROUP DELCONSUMER s g c", 1)
    stream.expect("XPENDING s g", [1, "2-0", "2-0", [["d", "1"]]])
    stream.expect("XGROUP DELCONSUMER s g d", 1)
    stream.expect("XPENDING s g", [0, None, None, None])


def test_the_order_of_names(stream: Server) -> None:
    """Groups and consumers are listed in the order of their names' bytes, the empty name first."""
    names = ["b", "a", "ab", "B", "", "é"]
    for name in names:
        stream.run("XGROUP", "CREATE", "s", name, "0")
        stream.run("XGROUP", "CREATECONSUMER", "s", "a", name) if name == "a" else None
    for name in names:
        stream.run("XGROUP", "CREATECONSUMER", "s", "a", name)
    assert [row[b"name"] for row in groups(stream)] == sorted(name.encode() for name in names)
    consumers = stream.run("XINFO CONSUMERS s a")
    shown = [row[b"name"] if isinstance(row, dict) else row[1] for row in consumers]
    assert shown == sorted(name.encode() for name in names)


def test_info_of_empty_and_missing_groups(stream: Server) -> None:
    """XINFO returns empty arrays for a stream without groups and a group without consumers, and an error for a missing
    group.
    """
    stream.expect("XINFO GROUPS s", [])
    stream.given("XGROUP CREATE s g 0")
    stream.expect("XINFO CONSUMERS s g", [])
    stream.expect("XINFO CONSUMERS s none", no_group())


def test_consumer_rows(stream: Server) -> None:
    """XINFO CONSUMERS has name, pending, idle, and since 7.2 inactive."""
    stream.given("XGROUP CREATE s g 0", "XGROUP CREATECONSUMER s g b", "XREADGROUP GROUP g a STREAMS s >")
    rows = stream.run("XINFO CONSUMERS s g")
    dicts = [row if isinstance(row, dict) else dict(zip(row[::2], row[1::2], strict=True)) for row in rows]
    assert [row[b"name"] for row in dicts] == [b"a", b"b"]
    assert [row[b"pending"] for row in dicts] == [2, 0]
    assert all(0 <= row[b"idle"] < 5000 for row in dicts)
    names = [b"name", b"pending", b"idle", b"inactive"]
    assert list(dicts[0]) == stream.newest(names, before={"7.2": names[:3]})
    if stream.since("7.2"):
        assert dicts[1][b"inactive"] == -1
        assert 0 <= dicts[0][b"inactive"] < 5000


@since("7.2")
@hand_clock
@pytest.mark.parametrize(
    ("command", "idle", "inactive"),
    [
        ("XREADGROUP GROUP g c STREAMS s >", 0, 0),
        ("XREADGROUP GROUP g c NOACK STREAMS s >", 0, 1000),
        ("XREADGROUP GROUP g c STREAMS s 0", 0, 1000),
        ("XCLAIM s g c 0 1-0", 0, 0),
        ("XCLAIM s g c 0 1-0 JUSTID", 0, 0),
        ("XCLAIM s g c 0 9-9", 0, 1000),
        ("XCLAIM s g c 99999 1-0", 0, 1000),
        ("XAUTOCLAIM s g c 0 0", 0, 0),
        ("XAUTOCLAIM s g c 99999 0", 0, 1000),
        ("XACK s g 1-0", 1000, 1000),
        ("XPENDING s g - + 10", 1000, 1000),
        ("XGROUP CREATECONSUMER s g c", 1000, 1000),
    ],
)
def test_seen_and_active(stream: Server, command: str, idle: int, inactive: int) -> None:
    """Each attempt to read or claim updates the seen time; only new pending entries and claims set the active time."""
    stream.given("XGROUP CREATE s g 0", "XREADGROUP GROUP g c COUNT 1 STREAMS s >")
    stream.let_pass(1000)
    stream.given(command)
    stream.expect("XINFO CONSUMERS s g", [Map({"name": "c", "pending": ANY, "idle": idle, "inactive": inactive})])


@since("7.2")
@hand_clock
def test_never_active(stream: Server) -> None:
    """A consumer that never got an entry has an inactive time of -1, however often it has called."""
    stream.given("XGROUP CREATE s g $", "XGROUP CREATECONSUMER s g c")
    stream.let_pass(70)
    stream.expect("XINFO CONSUMERS s g", [Map({"name": "c", "pending": 0, "idle": 70, "inactive": -1})])
    stream.expect("XREADGROUP GROUP g c STREAMS s >", None)
    stream.let_pass(5)
    stream.expect("XINFO CONSUMERS s g", [Map({"name": "c", "pending": 0, "idle": 5, "inactive": -1})])
