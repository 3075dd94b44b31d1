"""XDEL and XSETID, and the counters that XINFO STREAM shows after them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.kinds import Server
from tests.harness.replies import INVALID_ID, OK, SYNTAX, Error, Map, entries, entry

NO_KEY = Error("ERR no such key")


def info(server: Server, key: str = "s") -> dict[bytes, Any]:
    """Return XINFO STREAM as a dict in both protocols."""
    reply = server.run(f"XINFO STREAM {key}")
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


@pytest.fixture
def three(server: Server) -> Server:
    """Return a server with a stream s that has the entries 1-0, 2-0, 3-0."""
    server.given(*(f"XADD s {n}-0 n {n}" for n in range(1, 4)))
    return server


@pytest.mark.parametrize(
    ("ids", "deleted", "left", "max_deleted", "first"),
    [
        ("2-0", 1, [1, 3], "2-0", "1-0"),
        ("1-0", 1, [2, 3], "1-0", "2-0"),
        ("3-0 1-0", 2, [2], "3-0", "2-0"),
        ("2 2-0", 1, [1, 3], "2-0", "1-0"),
        ("9-9 0-0 2-1", 0, [1, 2, 3], "0-0", "1-0"),
        ("1-0 2-0 3-0", 3, [], "3-0", "0-0"),
    ],
)
def test_deleting(three: Server, ids: str, deleted: int, left: list[int], max_deleted: str, first: str) -> None:
    """XDEL returns the number of removed entries and records the greatest of their IDs."""
    three.expect(f"XDEL s {ids}", deleted)
    three.expect("XRANGE s - +", entries(*(f"{n}-0 n {n}" for n in left)))
    seen = info(three)
    assert seen[b"max-deleted-entry-id"] == max_deleted.encode()
    assert seen[b"recorded-first-entry-id"] == first.encode()
    assert seen[b"last-generated-id"] == b"3-0"
    assert seen[b"entries-added"] == 3
    assert seen[b"length"] == len(left)


def test_the_greatest_deleted_id_stays(three: Server) -> None:
    """Deleting a smaller ID later does not lower the greatest deleted ID."""
    three.given("XDEL s 2-0", "XDEL s 1-0")
    assert info(three)[b"max-deleted-entry-id"] == b"2-0"


def test_all_ids_are_parsed_first(three: Server) -> None:
    """A single invalid ID prevents all deletions."""
    three.expect("XDEL s 1-0 x 2-0", INVALID_ID)
    three.expect("XLEN s", 3)


def test_deleting_without_a_key(server: Server) -> None:
    """For a missing key nothing is deleted, and IDs are not even parsed."""
    server.expect("XDEL s 1-1", 0)
    server.expect("XDEL s x", 0)


def test_deleting_leaves_pending_entries(three: Server) -> None:
    """A deleted entry stays pending."""
    three.given("XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >", "XDEL s 2-0")
    three.expect("XPENDING s g", [3, "1-0", "3-0", [["c", "3"]]])


# -- XSETID ---------------------------------------------------------------------------------------------------------


def test_setting_the_last_id(three: Server) -> None:
    """XSETID sets the last ID, and the counters if they are given."""
    three.expect("XSETID s 200-0", OK)
    assert info(three)[b"last-generated-id"] == b"200-0"
    three.expect("XADD s 200-* n 4", "200-1")
    three.expect("XSETID s 300-0 ENTRIESADDED 10 MAXDELETEDID 250-0", OK)
    seen = info(three)
    assert (seen[b"entries-added"], seen[b"max-deleted-entry-id"]) == (10, b"250-0")


def test_a_zero_deleted_id_changes_nothing(three: Server) -> None:
    """MAXDELETEDID 0-0 keeps the previous value."""
    three.given("XDEL s 2-0")
    three.expect("XSETID s 9-0 ENTRIESADDED 3 MAXDELETEDID 0-0", OK)
    assert info(three)[b"max-deleted-entry-id"] == b"2-0"


def test_an_empty_stream_may_go_back(server: Server) -> None:
    """In an empty stream the last ID can be set to any ID from the greatest deleted ID on."""
    server.given("XADD s 5-0 f v", "XDEL s 5-0")
    server.expect("XSETID s 5-0", OK)
    server.expect("XSETID s 9-0", OK)
    server.expect("XSETID s 6-0", OK)


TOP = Error("ERR The ID specified in XSETID is smaller than the target stream top item")


def test_errors(three: Server) -> None:
    """XSETID makes its checks in Redis's order, and changes nothing after an error."""
    for command, reply in [
        ("XSETID missing 1-0", NO_KEY),
        ("XSETID missing 1-0 ENTRIESADDED 1 MAXDELETEDID 0-0", NO_KEY),
        ("XSETID missing x", INVALID_ID),
        ("XSETID s x", INVALID_ID),
        ("XSETID s 2-9", TOP),
        ("XSETID s 0-0", TOP),
        ("XSETID s 9-0 ENTRIESADDED -1 MAXDELETEDID 0-0", Error("ERR entries_added must be positive")),
        ("XSETID s 9-0 ENTRIESADDED x MAXDELETEDID 0-0", Error("ERR value is not an integer or out of range")),
        ("XSETID s 9-0 ENTRIESADDED 3 MAXDELETEDID x", INVALID_ID),
        (
            "XSETID s 9-0 ENTRIESADDED 3 MAXDELETEDID 9-1",
            Error("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"),
        ),
        (
            "XSETID s 9-0 ENTRIESADDED 2 MAXDELETEDID 0-0",
            Error("ERR The entries_added specified in XSETID is smaller than the target stream length"),
        ),
        ("XSETID s 2-0 ENTRIESADDED 2 MAXDELETEDID 0-0", TOP),
        ("XSETID s 9-0 WAT 1", SYNTAX),
        ("XSETID s 9-0 ENTRIESADDED", SYNTAX),
    ]:
        three.expect(command, reply)
        three.expect("XLEN s", 3)
        assert info(three)[b"last-generated-id"] == b"3-0"


def test_the_deleted_id_is_a_bound(server: Server) -> None:
    """XSETID rejects a last ID below the last deleted ID, except in 7.0."""
    server.given("XADD s 1-0 f v", "XADD s 5-0 f v", "XDEL s 5-0")
    below = Error("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id")
    server.expect("XSETID s 3-0", server.newest(below, before={"7.2": OK}))


# -- XINFO STREAM ---------------------------------------------------------------------------------------------------

#: The fields since 8.6; earlier releases do not have them.
IDEMPOTENCE = {
    "idmp-duration": 100,
    "idmp-maxsize": 100,
    "pids-tracked": 0,
    "iids-tracked": 0,
    "iids-added": 0,
    "iids-duplicates": 0,
}


def test_all_fields(three: Server) -> None:
    """XINFO STREAM has the fields of the server's release, in Redis's order."""
    three.given("XGROUP CREATE s g 0", "XDEL s 1-0")
    fields: dict[str, Any] = {
        "length": 2,
        "radix-tree-keys": 1,
        "radix-tree-nodes": 2,
        "last-generated-id": "3-0",
        "max-deleted-entry-id": "1-0",
        "entries-added": 3,
        "recorded-first-entry-id": "2-0",
    }
    if three.since("8.6"):
        fields |= IDEMPOTENCE
    fields |= {"groups": 1, "first-entry": entry("2-0 n 2"), "last-entry": entry("3-0 n 3")}
    three.expect("XINFO STREAM s", Map(fields))


def test_an_empty_stream(server: Server) -> None:
    """A stream made by XGROUP CREATE MKSTREAM has no entries and zero IDs."""
    server.given("XGROUP CREATE s g $ MKSTREAM")
    fields: dict[str, Any] = {
        "length": 0,
        "radix-tree-keys": 0,
        "radix-tree-nodes": 1,
        "last-generated-id": "0-0",
        "max-deleted-entry-id": "0-0",
        "entries-added": 0,
        "recorded-first-entry-id": "0-0",
    }
    if server.since("8.6"):
        fields |= IDEMPOTENCE
    server.expect("XINFO STREAM s", Map({**fields, "groups": 1, "first-entry": None, "last-entry": None}))


def test_info_needs_a_key(server: Server) -> None:
    """XINFO of a missing key is an error that comes before syntax errors."""
    for command in [
        "XINFO STREAM s",
        "XINFO STREAM s FULL",
        "XINFO STREAM s WAT",
        "XINFO GROUPS s",
        "XINFO CONSUMERS s g",
    ]:
        server.expect(command, NO_KEY)


def test_help(server: Server) -> None:
    """HELP returns an array of simple strings that names the subcommands."""
    for container, subcommands in {
        "XINFO": [b"CONSUMERS", b"GROUPS", b"STREAM", b"HELP"],
        "XGROUP": [b"CREATE", b"CREATECONSUMER", b"DELCONSUMER", b"DESTROY", b"SETID", b"HELP"],
    }.items():
        lines = server.run(container, "HELP")
        assert lines[0].startswith(container.encode() + b" <subcommand>")
        named = {line.split(b" ")[0] for line in lines[1:] if not line.startswith(b" ")}
        assert named >= set(subcommands)
        assert server.wire(container, "HELP").splitlines()[1].startswith(b"+")
