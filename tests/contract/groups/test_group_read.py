"""XREADGROUP without waiting: new entries, history, NOACK, and its errors."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import hand_clock, since
from tests.harness.replies import ANY, INVALID_ID, NOT_AN_INTEGER, SYNTAX, WRONGTYPE, Error, Streams, entries

ALL = entries("1-0 f 1", "2-0 f 2", "3-0 f 3")


@pytest.fixture
def group(server: Server) -> Server:
    """Return a server with a stream s that has 1-0, 2-0, 3-0, and a group g at its start."""
    server.given("XADD s 1-0 f 1", "XADD s 2-0 f 2", "XADD s 3-0 f 3", "XGROUP CREATE s g 0")
    return server


def got(*some: object) -> Streams:
    return Streams({"s": list(some)})


def test_each_entry_goes_to_one_consumer(group: Server) -> None:
    """``>`` returns entries that no consumer of the group has received."""
    group.expect("XREADGROUP GROUP g a COUNT 1 STREAMS s >", got(ALL[0]))
    group.expect("XREADGROUP GROUP g b COUNT 1 STREAMS s >", got(ALL[1]))
    group.expect("XREADGROUP GROUP g a STREAMS s >", got(ALL[2]))
    group.expect("XREADGROUP GROUP g b STREAMS s >", None)
    group.expect("XPENDING s g", [3, "1-0", "3-0", [["a", "2"], ["b", "1"]]])
    group.given("XADD s 4-0 f 4")
    group.expect("XREADGROUP GROUP g b STREAMS s >", got(*entries("4-0 f 4")))


def test_groups_are_independent(group: Server) -> None:
    """Each group gets every entry after its own position."""
    group.given("XGROUP CREATE s h 1-0")
    group.expect("XREADGROUP GROUP g a STREAMS s >", got(*ALL))
    group.expect("XREADGROUP GROUP h a STREAMS s >", got(*ALL[1:]))


def test_nothing_new(group: Server) -> None:
    """Without new entries the reply is the null array."""
    group.given("XREADGROUP GROUP g a STREAMS s >")
    assert group.wire("XREADGROUP GROUP g a STREAMS s >") == (b"_\r\n" if group.proto == 3 else b"*-1\r\n")


@pytest.mark.parametrize("count", ["0", "-1"])
def test_count_without_limit(group: Server, count: str) -> None:
    """A COUNT of 0 or less means no limit."""
    group.expect(f"XREADGROUP GROUP g a COUNT {count} STREAMS s >", got(*ALL))


def test_history(group: Server) -> None:
    """Any ID other than ``>`` returns the consumer's own pending entries after it, or an empty list."""
    group.given("XREADGROUP GROUP g a COUNT 2 STREAMS s >", "XREADGROUP GROUP g b STREAMS s >")
    group.expect("XREADGROUP GROUP g a STREAMS s 0", got(*ALL[:2]))
    group.expect("XREADGROUP GROUP g a STREAMS s 1-0", got(ALL[1]))
    group.expect("XREADGROUP GROUP g a COUNT 1 STREAMS s 0", got(ALL[0]))
    group.expect("XREADGROUP GROUP g a STREAMS s 2-0", got())
    group.expect("XREADGROUP GROUP g b STREAMS s 0", got(ALL[2]))
    group.expect("XREADGROUP GROUP g c STREAMS s 0", got())
    group.given("XACK s g 1-0")
    group.expect("XREADGROUP GROUP g a STREAMS s 0", got(ALL[1]))


def test_history_never_blocks(group: Server) -> None:
    """Reading history never blocks, even with BLOCK 0."""
    group.expect("XREADGROUP GROUP g a BLOCK 0 STREAMS s 0", got())


def test_history_of_deleted_entries(group: Server) -> None:
    """A pending entry that was deleted from the stream is returned with its ID and a null instead of fields."""
    group.given("XREADGROUP GROUP g a STREAMS s >", "XDEL s 1-0", "XTRIM s MINID 3")
    group.expect("XREADGROUP GROUP g a STREAMS s 0", got(["1-0", None], ["2-0", None], ALL[2]))
    null = b"_\r\n" if group.proto == 3 else b"*-1\r\n"
    assert b"$3\r\n1-0\r\n" + null in group.wire("XREADGROUP GROUP g a STREAMS s 0")


def test_history_counts_deliveries(group: Server) -> None:
    """Each reading of history counts as a delivery of the entries that still exist."""
    group.given("XREADGROUP GROUP g a COUNT 2 STREAMS s >", "XDEL s 1-0")
    group.given("XREADGROUP GROUP g a STREAMS s 0", "XREADGROUP GROUP g a STREAMS s 0")
    group.expect("XPENDING s g - + 10", [["1-0", "a", ANY, 1], ["2-0", "a", ANY, 3]])


@hand_clock
def test_history_renews_the_delivery_time(group: Server) -> None:
    """Reading history sets the delivery time to the present for entries that still exist."""
    group.given("XREADGROUP GROUP g a COUNT 2 STREAMS s >", "XDEL s 1-0")
    group.let_pass(50)
    group.given("XREADGROUP GROUP g a STREAMS s 0")
    group.let_pass(7)
    group.expect("XPENDING s g - + 10", [["1-0", "a", 57, 1], ["2-0", "a", 7, 2]])


def test_noack(group: Server) -> None:
    """NOACK delivers without making entries pending."""
    group.expect("XREADGROUP GROUP g a NOACK STREAMS s >", got(*ALL))
    group.expect("XPENDING s g", [0, None, None, None])
    group.expect("XREADGROUP GROUP g a NOACK STREAMS s 0", got())
    group.expect("XREADGROUP GROUP g a STREAMS s >", None)


def test_delivery_of_pending_entries(group: Server) -> None:
    """After XGROUP SETID to an earlier ID, a pending entry can move to a new consumer and has one delivery again."""
    group.given("XREADGROUP GROUP g a STREAMS s >", "XREADGROUP GROUP g a STREAMS s 0", "XGROUP SETID s g 1-0")
    group.expect("XREADGROUP GROUP g b COUNT 1 STREAMS s >", got(ALL[1]))
    group.expect("XPENDING s g - + 10", [["1-0", "a", ANY, 2], ["2-0", "b", ANY, 1], ["3-0", "a", ANY, 2]])
    group.expect("XPENDING s g", [3, "1-0", "3-0", [["a", "2"], ["b", "1"]]])
    group.expect("XREADGROUP GROUP g a STREAMS s >", got(ALL[2]))


def test_delivery_between_pending_entries(group: Server) -> None:
    """Acknowledged entries that are delivered again are pending in the order of their IDs."""
    group.given("XREADGROUP GROUP g a STREAMS s >", "XACK s g 1-0 2-0", "XGROUP SETID s g 0")
    group.expect("XREADGROUP GROUP g b COUNT 2 STREAMS s >", got(*ALL[:2]))
    group.expect("XPENDING s g - + 10", [["1-0", "b", ANY, 1], ["2-0", "b", ANY, 1], ["3-0", "a", ANY, 1]])
    group.expect("XACK s g 1-0 2-0 3-0", 3)


def test_the_greatest_id_means_new_entries(group: Server) -> None:
    """The greatest possible ID means ``>``."""
    greatest = "18446744073709551615-18446744073709551615"
    group.expect(f"XREADGROUP GROUP g a COUNT 1 STREAMS s {greatest}", got(ALL[0]))


def test_deleted_entries_are_not_delivered(group: Server) -> None:
    """New entries that were deleted before they were read are skipped."""
    group.given("XDEL s 1-0 3-0")
    group.expect("XREADGROUP GROUP g a STREAMS s >", got(ALL[1]))


def test_several_streams(group: Server) -> None:
    """One command can read new entries and history; streams without new entries are left out."""
    group.given(
        "XADD t 1-0 f 1", "XGROUP CREATE t g 0", "XGROUP CREATE u g $ MKSTREAM", "XREADGROUP GROUP g a STREAMS t >"
    )
    group.expect("XREADGROUP GROUP g a COUNT 1 STREAMS s t u > 0 >", Streams({"s": ALL[:1], "t": entries("1-0 f 1")}))
    group.expect("XREADGROUP GROUP g a STREAMS u t > 5", Streams({"t": []}))


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


@hand_clock
def test_delivery_times(group: Server) -> None:
    """Idle times count from the delivery."""
    group.given("XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    group.let_pass(30)
    group.given("XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    group.let_pass(12)
    group.expect("XPENDING s g - + 10", [["1-0", "a", 42, 1], ["2-0", "a", 12, 1]])
