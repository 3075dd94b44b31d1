"""Entry IDs: accepted forms, the special forms that each argument accepts, and their text."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import since
from tests.harness.replies import INVALID_ID, Error, Streams, entries

U64MAX = 18446744073709551615
MAX_ID = f"{U64MAX}-{U64MAX}"
SMALLER = Error("ERR The ID specified in XADD is equal or smaller than the target stream top item")
EXHAUSTED = Error("ERR The stream has exhausted the last possible ID, unable to add more items")

#: Arguments that take a plain ID, as commands with a placeholder. Each runs on a stream s with a group g.
PLAIN = [
    "XADD s {} f v",
    "XTRIM s MINID {}",
    "XDEL s {}",
    "XACK s g {}",
    "XCLAIM s g c 0 1-1 LASTID {}",
    "XSETID s {}",
    "XSETID s 9-9 ENTRIESADDED 5 MAXDELETEDID {}",
]
#: Arguments that take an ID, an exclusive ID with ``(``, ``-`` or ``+``.
BOUNDS = [
    "XRANGE s {} +",
    "XREVRANGE s + {}",
    "XRANGE s - {}",
    "XREVRANGE s {} -",
    "XPENDING s g {} + 10",
    "XPENDING s g - {} 10",
    "XAUTOCLAIM s g c 0 {}",
]

NOT_IDS = [
    "x",
    "1-x",
    "x-1",
    "1-",
    "-1",
    "1-1-1",
    "0x1-1",
    "1.5-1",
    "18446744073709551616-0",
    "0-18446744073709551616",
    "1-1x",
    "1" * 128,
]


@pytest.fixture
def stream(server: Server) -> Server:
    """Return a server with a stream s of two entries and a group g."""
    server.given("XADD s 1-1 a 1", "XADD s 2-1 b 2", "XGROUP CREATE s g 0")
    return server


#: Commands, and the words that each rejects as an ID: besides invalid IDs, the special forms that it does not accept.
REJECTED = [
    (PLAIN, [*NOT_IDS, "$", ">", "(1-1", "-", "+"]),
    (BOUNDS, [*NOT_IDS, "$", ">", "*", "1-*", "(", "(-", "(+", "((1-1"]),
    (["XGROUP CREATE s new {}", "XGROUP SETID s g {}"], ["*", "(1-1", ">", "x"]),
]


@pytest.mark.parametrize(("commands", "words"), REJECTED, ids=["plain IDs", "ends of ranges", "positions of groups"])
def test_invalid_ids(stream: Server, commands: list[str], words: list[str]) -> None:
    """Every argument rejects, with the same error, invalid IDs and the special forms that it does not accept."""
    for command in commands:
        for word in words:
            stream.expect(command.format(word), INVALID_ID)


@pytest.mark.parametrize("command", ["XRANGE s ({} +", "XREVRANGE s + ({}", "XPENDING s g ({} + 10"])
def test_no_id_follows_the_greatest_id(stream: Server, command: str) -> None:
    """An exclusive low end at the greatest ID is an error."""
    stream.expect(command.format(MAX_ID), Error("ERR invalid start ID for the interval"))


@pytest.mark.parametrize("command", ["XRANGE s - (0-0", "XREVRANGE s (0-0 -", "XPENDING s g - (0-0 10"])
def test_no_id_precedes_the_smallest_id(stream: Server, command: str) -> None:
    """An exclusive high end at the smallest ID is an error."""
    stream.expect(command, Error("ERR invalid end ID for the interval"))


# -- IDs that the server makes ----------------------------------------------------------------------------------------


def test_automatic_ids_follow_the_clock(server: Server) -> None:
    """``*`` gives the server's time in milliseconds, and sequence number 0 for the first entry in a millisecond."""
    before = server.now
    made = server.run("XADD s * f v").decode()
    after = server.now
    ms, seq = map(int, made.split("-"))
    assert before <= ms <= after
    assert seq == 0


def test_automatic_ids_never_go_back(server: Server) -> None:
    """If the last ID is ahead of the clock, ``*`` gives its successor."""
    server.given("XADD s 9999999999999-7 f v")
    server.expect("XADD s * f v", "9999999999999-8")


def test_automatic_ids_carry_over(server: Server) -> None:
    """The successor of the greatest sequence number is in the next millisecond."""
    server.given(f"XADD s 9999999999999-{U64MAX} f v")
    server.expect("XADD s * f v", "10000000000000-0")


def test_automatic_sequence_does_not_carry_over(server: Server) -> None:
    """If the sequence numbers of a millisecond are used up, ``ms-*`` is rejected, by 7.0 with a misleading error."""
    server.given(f"XADD s 5-{U64MAX} f v")
    too_large = Error("ERR Elements are too large to be stored")
    server.expect("XADD s 5-* f v", server.newest(SMALLER, before={"7.2": too_large}))


def test_an_exhausted_stream(server: Server) -> None:
    """After the greatest ID nothing can be added, with any ID."""
    for asked in ["*", MAX_ID, f"{U64MAX}-*", "1-1", "1-*"]:
        server.given("FLUSHALL")
        server.given(f"XADD y {U64MAX}-{U64MAX - 1} f v")
        server.expect("XADD y * f v", MAX_ID)
        server.expect(f"XADD y {asked} f v", EXHAUSTED)


@since("7.4")
def test_plus_in_xread(stream: Server) -> None:
    """``+`` in XREAD is the last entry; ``-``, ``*`` and exclusive IDs are invalid."""
    stream.expect("XREAD STREAMS s +", Streams({"s": entries("2-1 b 2")}))
    stream.expect("XREAD STREAMS s -", INVALID_ID)
    stream.expect("XREAD STREAMS s *", INVALID_ID)
    stream.expect("XREAD STREAMS s (1-1", INVALID_ID)
