"""XCLAIM and XAUTOCLAIM."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import hand_clock
from tests.harness.replies import ANY, INVALID_ID, SYNTAX, Error, entries

ALL = entries("1-0 f 1", "2-0 f 2", "3-0 f 3")


@pytest.fixture
def claimed(server: Server) -> Server:
    """Return a server with a stream s from 1-0 to 4-0.

    In group g, consumer a has 1-0 to 3-0, and 4-0 was not delivered.
    """
    server.given(*(f"XADD s {n}-0 f {n}" for n in range(1, 5)), "XGROUP CREATE s g 0")
    server.given("XREADGROUP GROUP g a COUNT 3 STREAMS s >")
    return server


# -- XCLAIM -----------------------------------------------------------------------------------------------------------


def test_delivery_counts_of_a_claim(claimed: Server) -> None:
    """A claim counts a delivery unless RETRYCOUNT sets the count or JUSTID is given; a forced one begins with two."""
    for options, count in [("", 2), ("RETRYCOUNT -1", 3), ("JUSTID", 3), ("RETRYCOUNT 7 JUSTID", 7)]:
        claimed.given(f"XCLAIM s g b 0 1-0 {options}")
        claimed.expect("XPENDING s g 1 1 1", [["1-0", "b", ANY, count]])
    claimed.expect("XCLAIM s g b 0 4-0 FORCE", entries("4-0 f 4"))
    claimed.expect("XPENDING s g 4 4 1", [["4-0", "b", ANY, 2]])


def test_the_consumer_is_created_without_a_claim(claimed: Server) -> None:
    """XCLAIM and XAUTOCLAIM create their consumer even if nothing is claimed; before 7.2 only with the first claim."""
    claimed.given("XCLAIM s g b 99999999 1-0", "XAUTOCLAIM s g c 99999999 0")
    names = [row[b"name"] if isinstance(row, dict) else row[1] for row in claimed.run("XINFO CONSUMERS s g")]
    assert names == claimed.newest([b"a", b"b", b"c"], before={"7.2": [b"a"]})


def invalid(option: str) -> Error:
    return Error(f"ERR Invalid {option} option argument for XCLAIM")


def unrecognized(word: str) -> Error:
    return Error(f"ERR Unrecognized XCLAIM option '{word}'")


NOGROUP = "NOGROUP No such key '{}' or consumer group '{}'"


def test_claim_errors(claimed: Server) -> None:
    """After an error of XCLAIM or XAUTOCLAIM nothing is claimed and no consumer is made."""
    for command, reply in [
        ("XCLAIM none g c 0 1-0", Error(NOGROUP.format("none", "g"))),
        ("XCLAIM s none c 0 1-0", Error(NOGROUP.format("s", "none"))),
        ("XCLAIM none g c x 1-0", Error(NOGROUP.format("none", "g"))),
        ("XCLAIM s g c x 1-0", Error("ERR Invalid min-idle-time argument for XCLAIM")),
        ("XCLAIM s g c 0 1-0 WAT", unrecognized("WAT")),
        ("XCLAIM s g c 0 1-0 wat", unrecognized("wat")),
        ("XCLAIM s g c 0 x", unrecognized("x")),
        ("XCLAIM s g c 0 1-0 x 2-0", unrecognized("x")),
        ("XCLAIM s g c 0 1-0 FORCE 2-0", unrecognized("2-0")),
        ("XCLAIM s g c 0 1-0 IDLE", unrecognized("IDLE")),
        ("XCLAIM s g c 0 1-0 LASTID", unrecognized("LASTID")),
        ("XCLAIM s g c 0 1-0 IDLE x", invalid("IDLE")),
        ("XCLAIM s g c 0 1-0 TIME x", invalid("TIME")),
        ("XCLAIM s g c 0 1-0 RETRYCOUNT x", invalid("RETRYCOUNT")),
        ("XCLAIM s g c 0 1-0 LASTID x", INVALID_ID),
        ("XAUTOCLAIM none g c 0 0", Error(NOGROUP.format("none", "g"))),
        ("XAUTOCLAIM s none c 0 0", Error(NOGROUP.format("s", "none"))),
        ("XAUTOCLAIM s g c x 0", Error("ERR Invalid min-idle-time argument for XAUTOCLAIM")),
        ("XAUTOCLAIM none g c x 0", Error("ERR Invalid min-idle-time argument for XAUTOCLAIM")),
        ("XAUTOCLAIM s g c 0 x", INVALID_ID),
        ("XAUTOCLAIM none g c 0 x", INVALID_ID),
        ("XAUTOCLAIM s g c 0 0 COUNT 0", Error("ERR COUNT must be > 0")),
        ("XAUTOCLAIM s g c 0 0 COUNT -1", Error("ERR COUNT must be > 0")),
        ("XAUTOCLAIM s g c 0 0 COUNT x", Error("ERR COUNT must be > 0")),
        ("XAUTOCLAIM s g c 0 0 COUNT 576460752303423489", Error("ERR COUNT must be > 0")),
        ("XAUTOCLAIM s g c 0 0 COUNT", SYNTAX),
        ("XAUTOCLAIM s g c 0 0 WAT", SYNTAX),
    ]:
        claimed.expect(command, reply)
        claimed.expect("XPENDING s g", [3, "1-0", "3-0", [["a", "3"]]])
        assert len(claimed.run("XINFO CONSUMERS s g")) == 1, command


@hand_clock
@pytest.mark.parametrize(
    ("options", "idle"),
    [
        ("", 0),
        ("IDLE 30", 30),
        ("IDLE 0", 0),
        ("TIME {ago_50}", 50),
        ("IDLE -5", 0),
        ("TIME -1", 0),
        ("TIME {in_50}", 0),
        ("TIME {ago_50} IDLE 3", 3),
        ("IDLE 3 TIME {ago_50}", 50),
        ("JUSTID IDLE 9", 9),
    ],
)
def test_delivery_times_of_a_claim(claimed: Server, options: str, idle: int) -> None:
    """A claim's delivery time is the present, or set by IDLE or TIME; a negative time or one in the future becomes the
    present.
    """
    claimed.let_pass(1000)
    times = {"ago_50": claimed.now - 50, "in_50": claimed.now + 50}
    claimed.given(f"XCLAIM s g b 0 1-0 {options.format(**times)}")
    claimed.expect("XPENDING s g 1 1 1", [["1-0", "b", idle, ANY]])


@hand_clock
def test_min_idle(claimed: Server) -> None:
    """An entry that has been idle for exactly the given time is claimed."""
    claimed.let_pass(100)
    claimed.expect("XCLAIM s g b 101 1-0 2-0 JUSTID", [])
    claimed.expect("XCLAIM s g b 100 1-0 JUSTID", ["1-0"])
    claimed.expect("XCLAIM s g b 100 1-0 2-0 JUSTID", ["2-0"])
    claimed.expect("XAUTOCLAIM s g b 100 0 JUSTID", ["0-0", ["3-0"], []])


# -- XAUTOCLAIM -------------------------------------------------------------------------------------------------------


def test_autoclaim_of_deleted_entries(claimed: Server) -> None:
    """Deleted entries leave the pending list, are reported, and count towards COUNT."""
    claimed.given("XDEL s 1-0 2-0")
    claimed.expect("XAUTOCLAIM s g b 99999999 0 COUNT 1", ["2-0", [], ["1-0"]])
    claimed.expect("XAUTOCLAIM s g b 0 0 COUNT 10", ["0-0", ALL[2:], ["2-0"]])
    claimed.expect("XPENDING s g", [1, "3-0", "3-0", [["b", "1"]]])


def test_autoclaim_checks_ten_times_count(server: Server) -> None:
    """XAUTOCLAIM checks at most ten times COUNT pending entries, even if it claims none."""
    server.given(
        *(f"XADD s {n}-0 f v" for n in range(1, 31)), "XGROUP CREATE s g 0", "XREADGROUP GROUP g a STREAMS s >"
    )
    server.expect("XAUTOCLAIM s g c 100000 0 COUNT 1", ["11-0", [], []])
    server.expect("XAUTOCLAIM s g c 100000 11-0 COUNT 1", ["21-0", [], []])
    server.expect("XAUTOCLAIM s g c 100000 0 COUNT 3", ["0-0", [], []])


def test_autoclaims_default_count(server: Server) -> None:
    """Without COUNT a hundred entries are claimed."""
    server.given(
        *(f"XADD s {n}-0 f v" for n in range(1, 121)), "XGROUP CREATE s g 0", "XREADGROUP GROUP g a STREAMS s >"
    )
    cursor, ids, deleted = server.run("XAUTOCLAIM s g b 0 0 JUSTID")
    assert (cursor, len(ids), deleted) == (b"101-0", 100, [])


@pytest.mark.parametrize("word", ["", " JUSTID"])
def test_many_entries_are_claimed_at_once(server: Server, word: str) -> None:
    """The arrays of XAUTOCLAIM and XCLAIM have the announced length for any number of entries."""
    numbers = range(1, 2101)
    server.given(*(f"XADD s {n}-0 f {n}" for n in numbers), "XGROUP CREATE s g 0", "XGROUP CREATE s h 0")
    server.given("XREADGROUP GROUP g a STREAMS s >", "XREADGROUP GROUP h a STREAMS s >")
    found = [f"{n}-0" for n in numbers] if word else entries(*(f"{n}-0 f {n}" for n in numbers))
    server.expect(f"XAUTOCLAIM s g b 0 0 COUNT 3000{word}", ["0-0", found, []])
    server.expect(f"XCLAIM s h b 0 {' '.join(f'{n}-0' for n in numbers)}{word}", found)
    server.expect("XLEN s", 2100)
