"""Entry IDs: accepted forms, the special forms that each argument accepts, and their text."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import since
from tests.harness.replies import INVALID_ID, OK, Error, Streams, entries

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


@pytest.mark.parametrize("word", ["-", "+"])
def test_range_ends_in_groups(stream: Server, word: str) -> None:
    """XGROUP SETID accepts ``-`` and ``+``, XGROUP CREATE does not."""
    stream.expect(f"XGROUP CREATE s new {word}", INVALID_ID)
    stream.expect(f"XGROUP SETID s g {word}", OK)


def test_ids_are_written_canonically(server: Server) -> None:
    """An ID is returned as milliseconds, dash and sequence number, without leading zeros."""
    for given, written in [
        ("7", "7-0"),
        ("007-001", "7-1"),
        ("0-1", "0-1"),
        (f"{U64MAX}", f"{U64MAX}-0"),
        (MAX_ID, MAX_ID),
    ]:
        server.given("FLUSHALL")
        server.expect(f"XADD s {given} f v", written)
        server.expect("XRANGE s - +", entries(f"{written} f v"))


def test_incomplete_and_exclusive_ends(server: Server) -> None:
    """A missing sequence number is the lowest at a low end and the highest at a high end; ``(`` excludes the end."""
    server.given("XADD s 1-1 f v", "XADD s 1-2 f v", "XADD s 2-1 f v", "XADD s 2-2 f v")
    for command, ids in [
        ("XRANGE s 2 2", ["2-1", "2-2"]),
        ("XRANGE s 2 3", ["2-1", "2-2"]),
        ("XRANGE s 1-2 2-1", ["1-2", "2-1"]),
        ("XRANGE s (1-1 (2-2", ["1-2", "2-1"]),
        ("XRANGE s (1 +", ["1-1", "1-2", "2-1", "2-2"]),
        (f"XRANGE s (1-{U64MAX} +", ["2-1", "2-2"]),
        ("XRANGE s - (2", ["1-1", "1-2", "2-1", "2-2"]),
        ("XRANGE s - (2-0", ["1-1", "1-2"]),
        ("XREVRANGE s 1 1", ["1-2", "1-1"]),
        ("XREVRANGE s (2-2 (1-1", ["2-1", "1-2"]),
        ("XRANGE s 2-1 1-1", []),
        ("XRANGE s + -", []),
    ]:
        server.expect(command, entries(*(f"{entry_id} f v" for entry_id in ids)))


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


def test_automatic_sequence(server: Server) -> None:
    """``ms-*`` gives the next free sequence number of that millisecond."""
    for top, asked, reply in [
        (None, "0-*", "0-1"),
        (None, "5-*", "5-0"),
        ("5-3", "5-*", "5-4"),
        ("5-3", "6-*", "6-0"),
        ("5-3", "4-*", SMALLER),
        ("0-1", "0-*", "0-2"),
    ]:
        server.given("FLUSHALL")
        if top:
            server.given(f"XADD s {top} f v")
        server.expect(f"XADD s {asked} f v", reply)


def test_automatic_sequence_does_not_carry_over(server: Server) -> None:
    """If the sequence numbers of a millisecond are used up, ``ms-*`` is rejected, by 7.0 with a misleading error."""
    server.given(f"XADD s 5-{U64MAX} f v")
    too_large = Error("ERR Elements are too large to be stored")
    server.expect("XADD s 5-* f v", server.newest(SMALLER, before={"7.2": too_large}))


def test_automatic_sequences_of_one_stream(server: Server) -> None:
    """On a new stream 0-* gives 0-1, then 5-* gives 5-0, and then 4-* is rejected."""
    server.expect("XADD z 0-* f v", "0-1")
    server.expect("XADD z 5-* f v", "5-0")
    server.expect("XADD z 4-* f v", SMALLER)


def test_an_exhausted_stream(server: Server) -> None:
    """After the greatest ID nothing can be added, with any ID."""
    for asked in ["*", MAX_ID, f"{U64MAX}-*", "1-1", "1-*"]:
        server.given("FLUSHALL")
        server.given(f"XADD y {U64MAX}-{U64MAX - 1} f v")
        server.expect("XADD y * f v", MAX_ID)
        server.expect(f"XADD y {asked} f v", EXHAUSTED)


def test_ids_must_grow(server: Server) -> None:
    """An ID that is not greater than the last one is rejected."""
    for asked in ["1-1", "1-0", "1", "0-1"]:
        server.given("FLUSHALL")
        server.given("XADD s 1-1 f v")
        server.expect(f"XADD s {asked} f v", SMALLER)


def test_ids_must_grow_after_a_deletion(server: Server) -> None:
    """The last ID is kept after its entry was deleted."""
    server.given("XADD s 1-1 f v", "XADD s 2-1 f v", "XDEL s 2-1")
    server.expect("XADD s 2-1 f v", SMALLER)
    server.expect("XADD s 2-2 f v", "2-2")


def test_zero_is_rejected_as_an_id(server: Server) -> None:
    """0-0 cannot be added, and no key is created."""
    for asked in ["0-0", "0", "00-00"]:
        server.given("FLUSHALL")
        server.expect(f"XADD s {asked} f v", Error("ERR The ID specified in XADD must be greater than 0-0"))
        server.expect("EXISTS s", 0)


@since("7.4")
def test_plus_in_xread(stream: Server) -> None:
    """``+`` in XREAD is the last entry; ``-``, ``*`` and exclusive IDs are invalid."""
    stream.expect("XREAD STREAMS s +", Streams({"s": entries("2-1 b 2")}))
    stream.expect("XREAD STREAMS s -", INVALID_ID)
    stream.expect("XREAD STREAMS s *", INVALID_ID)
    stream.expect("XREAD STREAMS s (1-1", INVALID_ID)
