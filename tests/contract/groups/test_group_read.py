"""XREADGROUP without waiting: new entries, history, NOACK, and its errors."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import hand_clock, since
from tests.harness.replies import INVALID_ID, NOT_AN_INTEGER, SYNTAX, WRONGTYPE, Error, Streams, entries

ALL = entries("1-0 f 1", "2-0 f 2", "3-0 f 3")


@pytest.fixture
def group(server: Server) -> Server:
    """Return a server with a stream s that has 1-0, 2-0, 3-0, and a group g at its start."""
    server.given("XADD s 1-0 f 1", "XADD s 2-0 f 2", "XADD s 3-0 f 3", "XGROUP CREATE s g 0")
    return server


def got(*some: object) -> Streams:
    return Streams({"s": list(some)})


def test_nothing_new(group: Server) -> None:
    """Without new entries the reply is the null array."""
    group.given("XREADGROUP GROUP g a STREAMS s >")
    assert group.wire("XREADGROUP GROUP g a STREAMS s >") == (b"_\r\n" if group.proto == 3 else b"*-1\r\n")


def test_history_of_deleted_entries(group: Server) -> None:
    """A pending entry that was deleted from the stream is returned with its ID and a null instead of fields."""
    group.given("XREADGROUP GROUP g a STREAMS s >", "XDEL s 1-0", "XTRIM s MINID 3")
    group.expect("XREADGROUP GROUP g a STREAMS s 0", got(["1-0", None], ["2-0", None], ALL[2]))
    null = b"_\r\n" if group.proto == 3 else b"*-1\r\n"
    assert b"$3\r\n1-0\r\n" + null in group.wire("XREADGROUP GROUP g a STREAMS s 0")


@hand_clock
def test_history_renews_the_delivery_time(group: Server) -> None:
    """Reading history sets the delivery time to the present for entries that still exist."""
    group.given("XREADGROUP GROUP g a COUNT 2 STREAMS s >", "XDEL s 1-0")
    group.let_pass(50)
    group.given("XREADGROUP GROUP g a STREAMS s 0")
    group.let_pass(7)
    group.expect("XPENDING s g - + 10", [["1-0", "a", 57, 1], ["2-0", "a", 7, 2]])


def test_the_greatest_id_means_new_entries(group: Server) -> None:
    """The greatest possible ID means ``>``."""
    greatest = "18446744073709551615-18446744073709551615"
    group.expect(f"XREADGROUP GROUP g a COUNT 1 STREAMS s {greatest}", got(ALL[0]))


def test_options_come_in_any_order(group: Server) -> None:
    """GROUP is accepted anywhere before STREAMS."""
    group.expect("XREADGROUP COUNT 1 GROUP g a STREAMS s >", got(ALL[0]))
    group.expect("xreadgroup noack block 10 group g a count 1 streams s >", got(ALL[1]))


def test_the_consumer_is_created(group: Server) -> None:
    """A consumer is created by its first read; before 7.2 only if it got an entry."""
    group.given("XREADGROUP GROUP g a STREAMS s >")
    assert len(group.run("XINFO CONSUMERS s g")) == 1
    group.expect("XREADGROUP GROUP g b STREAMS s >", None)
    assert len(group.run("XINFO CONSUMERS s g")) == group.newest(2, before={"7.2": 1})
    group.given("XREADGROUP GROUP g c STREAMS s 0")
    assert len(group.run("XINFO CONSUMERS s g")) == group.newest(3, before={"7.2": 2})


MEANINGLESS = (
    "ERR The {0} ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by "
    "specifying a proper ID, or use the > ID to get new messages. The {0} ID would just return an empty result set."
)
NOGROUP = "NOGROUP No such key '{}' or consumer group '{}' in XREADGROUP with GROUP option"


def test_errors(group: Server) -> None:
    """XREADGROUP checks all streams before it delivers entries or creates consumers."""
    for command, reply in [
        ("XREADGROUP GROUP g c STREAMS none >", Error(NOGROUP.format("none", "g"))),
        ("XREADGROUP GROUP none c STREAMS s >", Error(NOGROUP.format("s", "none"))),
        ("XREADGROUP GROUP g c STREAMS s none > >", Error(NOGROUP.format("none", "g"))),
        ("XREADGROUP GROUP none c STREAMS s x", Error(NOGROUP.format("s", "none"))),
        ("XREADGROUP GROUP g c STREAMS s x", INVALID_ID),
        ("XREADGROUP GROUP g c STREAMS s -", INVALID_ID),
        ("XREADGROUP GROUP g c STREAMS s $", Error(MEANINGLESS.format("$"))),
        ("XREADGROUP GROUP g c STREAMS text >", WRONGTYPE),
        ("XREADGROUP GROUP g c STREAMS s text > x", WRONGTYPE),
        ("XREADGROUP COUNT 1 BLOCK 1 NOACK STREAMS s >", Error("ERR Missing GROUP option for XREADGROUP")),
        ("XREADGROUP GROUP g c COUNT x STREAMS s >", NOT_AN_INTEGER),
        ("XREADGROUP GROUP g c BLOCK x STREAMS s >", Error("ERR timeout is not an integer or out of range")),
        ("XREADGROUP GROUP g c BLOCK -1 STREAMS s >", Error("ERR timeout is negative")),
        ("XREADGROUP GROUP g c WAT STREAMS s >", SYNTAX),
        ("XREADGROUP GROUP g c COUNT 1 NOACK s", SYNTAX),
    ]:
        group.given("SET text v")
        group.expect(command, reply)
        group.expect("XINFO CONSUMERS s g", [])
        group.expect("XPENDING s g", [0, None, None, None])


def test_unbalanced(group: Server) -> None:
    """Fewer IDs than keys are an error."""
    new = "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified."
    old = "ERR Unbalanced XREADGROUP list of streams: for each stream key an ID or '>' must be specified."
    reply = group.newest(Error(new), before={"7.4": Error(old)})
    found = group.run("XREADGROUP GROUP g c STREAMS s t >")
    assert found == reply or (not group.since("7.4") and found.text.startswith("ERR Unbalanced"))


@since("7.4")
def test_plus_is_rejected(group: Server) -> None:
    """``+`` is rejected like ``$``."""
    group.expect("XREADGROUP GROUP g c STREAMS s +", Error(MEANINGLESS.format("+")))
