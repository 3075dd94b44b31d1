"""KEEPREF, DELREF and ACKED of XADD, XTRIM, XDELEX and XACKDEL (8.2): references of groups to deleted entries."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import since
from tests.harness.replies import ANY, INVALID_ID, SYNTAX, WRONGTYPE, Error, Streams, entries

pytestmark = since("8.2")

NUMIDS = Error("ERR Number of IDs must be a positive integer")
TOO_FEW = Error("ERR The `numids` parameter must match the number of arguments")
IDS_MISSING = Error("ERR IDS option is required")


@pytest.fixture
def stream(server: Server) -> Server:
    """Return a server with a stream s from 1-0 to 6-0.

    In group g, c has received 1-0 to 4-0 and acknowledged 1-0 and 2-0. In group h, d has received 1-0 and 2-0. So 1-0
    and 2-0 are referenced by h, 3-0 and 4-0 by g and as undelivered to h, 5-0 and 6-0 as undelivered to both.
    """
    server.given(*(f"XADD s {n}-0 f {n}" for n in range(1, 7)), "XGROUP CREATE s g 0", "XGROUP CREATE s h 0")
    server.given(
        "XREADGROUP GROUP g c COUNT 4 STREAMS s >", "XACK s g 1-0 2-0", "XREADGROUP GROUP h d COUNT 2 STREAMS s >"
    )
    return server


def left(server: Server) -> list[int]:
    return [int(entry[0].partition(b"-")[0]) for entry in server.run("XRANGE s - +")]


def pending(server: Server, group: str) -> list[int]:
    return [int(row[0].partition(b"-")[0]) for row in server.run(f"XPENDING s {group} - + 100")]


# -- XTRIM and XADD ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "removed", "entries_left", "in_g", "in_h"),
    [
        ("XTRIM s MAXLEN 3", 3, [4, 5, 6], [3, 4], [1, 2]),
        ("XTRIM s MAXLEN 3 KEEPREF", 3, [4, 5, 6], [3, 4], [1, 2]),
        ("XTRIM s MAXLEN 3 DELREF", 3, [4, 5, 6], [4], []),
        ("XTRIM s KEEPREF MAXLEN 3", 3, [4, 5, 6], [3, 4], [1, 2]),
        ("XTRIM s DELREF MINID 4", 3, [4, 5, 6], [4], []),
        ("XTRIM s MAXLEN 3 ACKED", 0, [1, 2, 3, 4, 5, 6], [3, 4], [1, 2]),
        ("XTRIM s MINID 4 acked", 0, [1, 2, 3, 4, 5, 6], [3, 4], [1, 2]),
        ("XTRIM s MAXLEN ~ 3 DELREF", 3, [4, 5, 6], [4], []),
    ],
)
def test_trimming(
    stream: Server, command: str, removed: int, entries_left: list[int], in_g: list[int], in_h: list[int]
) -> None:
    """KEEPREF keeps references, DELREF removes them, and ACKED keeps entries that are referenced."""
    stream.expect(command, removed)
    assert (left(stream), pending(stream, "g"), pending(stream, "h")) == (entries_left, in_g, in_h)


def test_acked_removes_unreferenced_entries(stream: Server) -> None:
    """ACKED removes entries that all groups have received and acknowledged, even after entries that stay."""
    stream.given("XACK s h 2-0")
    stream.expect("XTRIM s MAXLEN 0 ACKED", 1)
    assert left(stream) == [1, 3, 4, 5, 6]
    stream.given("XACK s h 1-0")
    stream.expect("XTRIM s MINID 2 ACKED", 1)
    assert left(stream) == [3, 4, 5, 6]


def test_acked_without_groups(server: Server) -> None:
    """Without groups ACKED removes all entries."""
    server.given("XADD s 1-0 f v", "XADD s 2-0 f v")
    server.expect("XTRIM s MAXLEN 0 ACKED", 2)


@pytest.mark.parametrize(
    ("words", "entries_left", "in_g"),
    [
        ("KEEPREF MAXLEN 2", [6, 7], [3, 4]),
        ("DELREF MAXLEN 2", [6, 7], []),
        ("ACKED MAXLEN 2", [1, 2, 3, 4, 5, 6, 7], [3, 4]),
        ("MAXLEN 2 DELREF", [6, 7], []),
        ("NOMKSTREAM DELREF MAXLEN = 2", [6, 7], []),
        ("DELREF", [1, 2, 3, 4, 5, 6, 7], [3, 4]),
    ],
)
def test_adding(stream: Server, words: str, entries_left: list[int], in_g: list[int]) -> None:
    """XADD applies the policy to the entries that it trims."""
    stream.expect(f"XADD s {words} 7-0 f 7", "7-0")
    assert (left(stream), pending(stream, "g")) == (entries_left, in_g)


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("XADD s KEEPREF DELREF 9-0 f v", INVALID_ID),
        ("XADD s DELREF DELREF 9-0 f v", INVALID_ID),
        ("XTRIM s MAXLEN 1 KEEPREF DELREF", SYNTAX),
        ("XTRIM s DELREF", Error("ERR wrong number of arguments for 'xtrim' command")),
        ("XTRIM s DELREF ACKED", SYNTAX),
    ],
)
def test_one_policy_only(stream: Server, command: str, reply: Error) -> None:
    """A second policy is a syntax error."""
    stream.expect(command, reply)


def test_the_limit_of_a_policy(server: Server) -> None:
    """With DELREF, ``~`` trims up to LIMIT."""
    if server.kind == "redis":
        server.config("stream-node-max-entries", 1)
    server.given(*(f"XADD s {n}-0 f v" for n in range(1, 31)))
    server.expect("XTRIM s MAXLEN ~ 25 LIMIT 3 DELREF", 3)
    server.expect("XTRIM s MAXLEN ~ 25 LIMIT 3 DELREF", 2)
    server.expect("XTRIM s MAXLEN ~ 0 LIMIT 20 DELREF", 20)


# -- XDELEX -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "reply", "entries_left", "in_g", "in_h"),
    [
        ("IDS 1 1-0", [1], [2, 3, 4, 5, 6], [3, 4], [1, 2]),
        ("KEEPREF IDS 2 3-0 9-0", [1, -1], [1, 2, 4, 5, 6], [3, 4], [1, 2]),
        ("DELREF IDS 3 1-0 3-0 9-0", [1, 1, -1], [2, 4, 5, 6], [4], [2]),
        ("ACKED IDS 3 1-0 3-0 5-0", [2, 2, 2], [1, 2, 3, 4, 5, 6], [3, 4], [1, 2]),
        ("ACKED IDS 1 9-0", [2], [1, 2, 3, 4, 5, 6], [3, 4], [1, 2]),
        ("ACKED IDS 1 0-5", [-1], [1, 2, 3, 4, 5, 6], [3, 4], [1, 2]),
        ("IDS 2 1-0 1-0", [1, -1], [2, 3, 4, 5, 6], [3, 4], [1, 2]),
        ("IDS 1 1-0 DELREF", [1], [2, 3, 4, 5, 6], [3, 4], [2]),
        ("ids 1 1 delref", [1], [2, 3, 4, 5, 6], [3, 4], [2]),
    ],
)
def test_xdelex(
    stream: Server, words: str, reply: list[int], entries_left: list[int], in_g: list[int], in_h: list[int]
) -> None:
    """XDELEX returns for each ID 1 (deleted), -1 (missing), or 2 (kept because it is referenced)."""
    stream.expect(f"XDELEX s {words}", reply)
    assert (left(stream), pending(stream, "g"), pending(stream, "h")) == (entries_left, in_g, in_h)


def test_xdelex_of_acknowledged_entries(stream: Server) -> None:
    """ACKED deletes an entry as soon as all groups have received and acknowledged it."""
    stream.given("XACK s h 1-0")
    stream.expect("XDELEX s ACKED IDS 2 1-0 2-0", [1, 2])


def test_xdelex_cleans_references_of_vanished_entries(stream: Server) -> None:
    """DELREF removes an ID from pending lists even if the entry was already deleted."""
    stream.given("XDEL s 3-0")
    stream.expect("XDELEX s DELREF IDS 1 3-0", [-1])
    assert pending(stream, "g") == [4]


def test_xdelex_keeps_the_counters_of_xdel(stream: Server) -> None:
    """XDELEX records the greatest deleted ID."""
    stream.given("XDELEX s IDS 1 5-0")
    reply = stream.run("XINFO STREAM s")
    fields = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
    assert fields[b"max-deleted-entry-id"] == b"5-0"


DELETION_ERRORS = [
    ("IDS 0 1-0", NUMIDS),
    ("IDS -1 1-0", NUMIDS),
    ("IDS x 1-0", NUMIDS),
    ("IDS 2 1-0", TOO_FEW),
    ("IDS 1 1-0 2-0", SYNTAX),
    ("WAT 1 1-0", SYNTAX),
    ("KEEPREF DELREF IDS 1 1-0", SYNTAX),
    ("IDS 1 1-0 WAT", SYNTAX),
    ("IDS 1 x", INVALID_ID),
    ("IDS 2 1-0 x", INVALID_ID),
]


@pytest.mark.parametrize(("words", "reply"), DELETION_ERRORS)
@pytest.mark.parametrize("command", ["XDELEX s", "XACKDEL s g"])
def test_deletion_errors(stream: Server, command: str, words: str, reply: Error) -> None:
    """After an error in the list of IDs nothing is deleted."""
    stream.expect(f"{command} {words}", reply)
    assert (left(stream), pending(stream, "g")) == ([1, 2, 3, 4, 5, 6], [3, 4])


@pytest.mark.parametrize("command", ["XDELEX s KEEPREF DELREF ACKED", "XDELEX s KEEPREF 1-0 2-0"])
def test_xdelex_without_ids(stream: Server, command: str) -> None:
    """XDELEX without IDS is an error."""
    assert stream.run(command) in (SYNTAX, IDS_MISSING)


def test_deletions_without_a_key(stream: Server) -> None:
    """Without the key or the group the reply is -1 for every ID, and IDs are not parsed."""
    stream.expect("XDELEX none IDS 2 1-0 x", [-1, -1])
    stream.expect("XACKDEL none g IDS 2 1-0 x", [-1, -1])
    stream.expect("XACKDEL s none IDS 1 x", [-1])
    stream.expect("EXISTS none", 0)


@pytest.mark.parametrize(
    "command", ["XDELEX k IDS 1 1-0", "XDELEX k WAT 2 1-0", "XACKDEL k g IDS 1 1-0", "XACKDEL k g WAT 1 1-0"]
)
def test_deletions_of_another_type(stream: Server, command: str) -> None:
    """A key of another type is an error, before invalid arguments."""
    stream.given("SET k v")
    stream.expect(command, WRONGTYPE)


# -- XACKDEL ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "reply", "entries_left", "in_g", "in_h"),
    [
        ("IDS 1 3-0", [1], [1, 2, 4, 5, 6], [4], [1, 2]),
        ("KEEPREF IDS 3 3-0 1-0 9-0", [1, -1, -1], [1, 2, 4, 5, 6], [4], [1, 2]),
        ("DELREF IDS 1 4-0", [1], [1, 2, 3, 5, 6], [3], [1, 2]),
        ("ACKED IDS 2 3-0 4-0", [2, 2], [1, 2, 3, 4, 5, 6], [], [1, 2]),
        ("IDS 2 3-0 3-0", [1, -1], [1, 2, 4, 5, 6], [4], [1, 2]),
    ],
)
def test_xackdel(
    stream: Server, words: str, reply: list[int], entries_left: list[int], in_g: list[int], in_h: list[int]
) -> None:
    """XACKDEL returns for each ID 1 (acknowledged and deleted), -1 (not pending), or 2 (acknowledged but kept)."""
    stream.expect(f"XACKDEL s g {words}", reply)
    assert (left(stream), pending(stream, "g"), pending(stream, "h")) == (entries_left, in_g, in_h)


def test_xackdel_by_the_last_group(stream: Server) -> None:
    """With ACKED the entry is deleted when the last group acknowledges it."""
    stream.given("XREADGROUP GROUP h d STREAMS s >")
    stream.expect("XACKDEL s g ACKED IDS 1 3-0", [2])
    stream.expect("XACKDEL s h ACKED IDS 1 3-0", [1])
    assert left(stream) == [1, 2, 4, 5, 6]


def test_xackdel_of_a_vanished_entry(stream: Server) -> None:
    """The ID of a deleted entry can be acknowledged, with reply 1."""
    stream.given("XDEL s 3-0")
    stream.expect("XACKDEL s g IDS 1 3-0", [1])
    assert pending(stream, "g") == [4]


def test_delref_removes_references_of_other_groups(stream: Server) -> None:
    """DELREF of XACKDEL removes the entry from the other groups too, and they continue to read."""
    stream.given("XREADGROUP GROUP h d STREAMS s >")
    stream.expect("XACKDEL s g DELREF IDS 1 3-0", [1])
    stream.expect("XPENDING s h - + 10", [[f"{n}-0", "d", ANY, 1] for n in (1, 2, 4, 5, 6)])
    stream.expect("XREADGROUP GROUP h d COUNT 1 STREAMS s 2", Streams({"s": entries("4-0 f 4")}))
