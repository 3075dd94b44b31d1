"""Errors of XSETID, and all fields of XINFO STREAM. tests/differential compares XDEL and XSETID with a real Redis."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.kinds import Server
from tests.harness.replies import INVALID_ID, OK, SYNTAX, Error, Map, entry

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


# -- XSETID ---------------------------------------------------------------------------------------------------------


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
