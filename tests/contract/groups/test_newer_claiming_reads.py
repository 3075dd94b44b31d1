"""XREADGROUP CLAIM (8.4), XNACK (8.8), MAXCOUNT and MAXSIZE (8.10).

The module is long because most cases use one group of one stream (`group`).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import hand_clock, since
from tests.harness.replies import ANY, INVALID_ID, WRONGTYPE, Between, Error, Map, Streams, entries, entry

I64MAX = 9223372036854775807


@pytest.fixture
def group(server: Server) -> Server:
    """Return a server with a stream s from 1-0 to 4-0. In group g, a has received 1-0 and 2-0."""
    server.given(*(f"XADD s {n}-0 f {n}" for n in range(1, 5)), "XGROUP CREATE s g 0")
    server.given("XREADGROUP GROUP g a COUNT 2 STREAMS s >")
    return server


def claimed(number: int, idle: Any, count: int) -> list[Any]:
    """Return an entry as a claiming read shows it: with idle time and deliveries before the claim."""
    return [*entry(f"{number}-0 f {number}"), idle, count]


def got(*some: Any) -> Streams:
    return Streams({"s": list(some)})


# -- CLAIM ------------------------------------------------------------------------------------------------------------


@since("8.4")
def test_claim_then_new(group: Server) -> None:
    """Pending entries that are idle for long enough come first, then new ones, each with its idle time
    and deliveries.
    """
    expected = got(claimed(1, ANY, 1), claimed(2, ANY, 1), claimed(3, 0, 0), claimed(4, 0, 0))
    group.expect("XREADGROUP GROUP g b CLAIM 0 STREAMS s >", expected)
    group.expect(
        "XPENDING s g - + 10", [["1-0", "b", ANY, 2], ["2-0", "b", ANY, 2], ["3-0", "b", ANY, 1], ["4-0", "b", ANY, 1]]
    )


@since("8.4")
def test_claim_with_count(group: Server) -> None:
    """COUNT counts claimed and new entries together."""
    group.expect(
        "XREADGROUP GROUP g b COUNT 3 CLAIM 0 STREAMS s >",
        got(claimed(1, ANY, 1), claimed(2, ANY, 1), claimed(3, 0, 0)),
    )
    group.expect("XPENDING s g", [3, "1-0", "3-0", [["b", "3"]]])


@since("8.4")
@hand_clock
def test_claim_by_idle_time(group: Server) -> None:
    """Entries with at least the given idle time are claimed in the order of their delivery times."""
    group.given("XCLAIM s g a 0 1-0 IDLE 50 JUSTID", "XCLAIM s g a 0 2-0 IDLE 100 JUSTID")
    group.expect("XREADGROUP GROUP g b COUNT 2 CLAIM 60 STREAMS s >", got(claimed(2, 100, 1), claimed(3, 0, 0)))
    group.let_pass(10)
    group.expect("XREADGROUP GROUP g b CLAIM 60 STREAMS s >", got(claimed(1, 60, 1), claimed(4, 0, 0)))
    group.expect("XREADGROUP GROUP g b CLAIM 60 STREAMS s >", None)


@since("8.4")
def test_claim_skips_vanished_entries(group: Server) -> None:
    """A pending entry that was deleted from the stream is skipped and stays pending."""
    group.given("XDEL s 1-0")
    group.expect("XREADGROUP GROUP g b COUNT 1 CLAIM 0 STREAMS s >", got(claimed(2, ANY, 1)))
    group.expect("XPENDING s g - + 10", [["1-0", "a", ANY, 1], ["2-0", "b", ANY, 2]])


@since("8.4")
def test_claim_and_noack(group: Server) -> None:
    """NOACK applies only to new entries; pending ones are claimed."""
    group.given("XREADGROUP GROUP g b NOACK CLAIM 0 STREAMS s >")
    group.expect("XPENDING s g", [2, "1-0", "2-0", [["b", "2"]]])


@since("8.4")
def test_claim_and_history(group: Server) -> None:
    """Reading history ignores CLAIM: entries have no idle time and no number of deliveries."""
    group.expect("XREADGROUP GROUP g a CLAIM 0 STREAMS s 0", got(*entries("1-0 f 1", "2-0 f 2")))


@since("8.4")
def test_claiming_stops_at_history(group: Server) -> None:
    """CLAIM does not apply to streams that are named after a stream whose history is read."""
    group.given("XADD t 1-0 f 1", "XGROUP CREATE t g 0")
    reply = Streams({"s": entries("1-0 f 1", "2-0 f 2"), "t": entries("1-0 f 1")})
    group.expect("XREADGROUP GROUP g a CLAIM 0 STREAMS s t 0 >", reply)


@since("8.4")
@pytest.mark.parametrize(
    ("words", "reply"),
    [
        ("CLAIM x", Error("ERR min-idle-time is not an integer or out of range")),
        ("CLAIM -1", Error("ERR min-idle-time must be a positive integer")),
    ],
)
def test_claim_errors(group: Server, words: str, reply: Error) -> None:
    """The idle time of CLAIM must be an integer of 0 or more."""
    group.expect(f"XREADGROUP GROUP g b {words} STREAMS s >", reply)


@since("8.4")
@hand_clock
def test_claim_waits_for_idleness(group: Server) -> None:
    """A blocked reader with CLAIM is served when a pending entry becomes idle for long enough."""
    group.given("XREADGROUP GROUP g a STREAMS s >")
    reader = group.client()
    reader.send("XREADGROUP GROUP g b COUNT 1 BLOCK 0 CLAIM 100 STREAMS s >")
    reader.expect_blocked()
    group.let_pass(99)
    reader.expect_blocked()
    group.let_pass(2)
    reader.expect_reply(got(claimed(1, Between(100, 101), 1)))


@since("8.4")
@hand_clock
def test_new_entries_end_the_wait_for_idleness(group: Server) -> None:
    """A blocked reader with CLAIM is served by new entries before a pending entry is idle for long enough."""
    group.given("XREADGROUP GROUP g a STREAMS s >")
    reader = group.client()
    reader.send("XREADGROUP GROUP g b BLOCK 0 CLAIM 100 STREAMS s >")
    reader.expect_blocked()
    group.let_pass(50)
    group.given("XADD s 5-0 f 5")
    reader.expect_reply(got(claimed(5, 0, 0)))
    group.let_pass(1000)
    reader.expect_nothing()


# -- XNACK ------------------------------------------------------------------------------------------------------------


@since("8.8")
@pytest.mark.parametrize(
    ("words", "reply", "count"),
    [
        ("SILENT IDS 1 1-0", 1, 0),
        ("FAIL IDS 1 1-0", 1, 1),
        ("FATAL IDS 1 1-0", 1, I64MAX),
        ("fail ids 1 1", 1, 1),
        ("FAIL IDS 1 1-0 RETRYCOUNT 7", 1, 7),
        ("SILENT IDS 1 1-0 RETRYCOUNT 0", 1, 0),
        ("FATAL IDS 1 1-0 RETRYCOUNT 3", 1, 3),
    ],
)
def test_nack(group: Server, words: str, reply: int, count: int) -> None:
    """XNACK releases an entry from its consumer and sets its delivery count according to the mode."""
    group.expect(f"XNACK s g {words}", reply)
    group.expect("XPENDING s g - + 10", [["1-0", "", -1, count], ["2-0", "a", ANY, 1]])
    group.expect("XREADGROUP GROUP g a STREAMS s 0", got(entry("2-0 f 2")))


@since("8.8")
def test_nack_counts(group: Server) -> None:
    """XNACK ignores IDs that are not pending; with FORCE they become pending if the entry exists.

    The reply is the number of released entries.
    """
    group.expect("XNACK s g FAIL IDS 3 1-0 3-0 9-0", 1)
    group.expect("XNACK s g FAIL IDS 3 1-0 3-0 9-0 FORCE", 2)
    group.expect("XPENDING s g - + 10", [["1-0", "", -1, 1], ["2-0", "a", ANY, 1], ["3-0", "", -1, 0]])
    group.expect("XNACK s g FATAL IDS 1 4-0 FORCE", 1)
    group.expect("XNACK s g FAIL IDS 1 4-0 RETRYCOUNT 2 FORCE", 1)
    group.expect("XPENDING s g 4 4 1", [["4-0", "", -1, 2]])


@since("8.8")
def test_silent_does_not_go_below_zero(group: Server) -> None:
    """SILENT reduces the number of deliveries by one, but not below zero."""
    group.given("XNACK s g SILENT IDS 1 1-0", "XNACK s g SILENT IDS 1 1-0")
    group.expect("XPENDING s g 1 1 1", [["1-0", "", -1, 0]])


@since("8.8")
def test_nacked_entries_stay_pending(group: Server) -> None:
    """NACKed entries are pending for the group without a consumer, survive the consumer, and are removed by XACK."""
    group.given("XNACK s g FAIL IDS 1 1-0")
    group.expect("XPENDING s g", [2, "1-0", "2-0", [["a", "1"]]])
    group.expect("XGROUP DELCONSUMER s g a", 1)
    group.expect("XPENDING s g - + 10", [["1-0", "", -1, 1]])
    group.expect("XACK s g 1-0", 1)
    group.expect("XPENDING s g", [0, None, None, None])


@since("8.8")
def test_idle_filters_include_nacked_entries(group: Server) -> None:
    """XPENDING IDLE includes NACKed entries regardless of the idle time; a consumer's filter excludes them."""
    group.given("XNACK s g FAIL IDS 1 1-0")
    group.expect("XPENDING s g IDLE 99999999 - + 10", [["1-0", "", -1, 1]])
    group.expect("XPENDING s g - + 10 a", [["2-0", "a", ANY, 1]])


@since("8.8")
def test_autoclaim_follows_the_order_of_ids(group: Server) -> None:
    """XAUTOCLAIM claims in the order of IDs, whether entries are NACKed or not."""
    group.given("XNACK s g FAIL IDS 1 2-0")
    group.expect("XAUTOCLAIM s g b 0 0 JUSTID", ["0-0", ["1-0", "2-0"], []])


@since("8.8")
@pytest.mark.parametrize("command", ["XCLAIM s g b 99999999 1-0 JUSTID", "XAUTOCLAIM s g b 99999999 0 JUSTID"])
def test_nacked_entries_can_always_be_claimed(group: Server, command: str) -> None:
    """A NACKed entry can be claimed regardless of the minimum idle time."""
    group.given("XNACK s g FAIL IDS 1 1-0")
    group.given(command)
    group.expect("XPENDING s g - + 10", [["1-0", "b", ANY, 1], ["2-0", "a", ANY, 1]])


@since("8.8")
def test_nacked_entries_come_first(group: Server) -> None:
    """A claiming read returns NACKed entries first, in the order in which they were NACKed."""
    group.given("XNACK s g FAIL IDS 1 2-0", "XNACK s g FAIL IDS 1 1-0")
    group.expect(
        "XREADGROUP GROUP g b COUNT 3 CLAIM 99999999 STREAMS s >",
        got(claimed(2, ANY, 1), claimed(1, ANY, 1), claimed(3, 0, 0)),
    )


@since("8.8")
def test_nack_wakes_claiming_readers(group: Server) -> None:
    """A reader that waits with CLAIM gets an entry that is NACKed during its wait."""
    group.given("XREADGROUP GROUP g a STREAMS s >")
    reader = group.client()
    reader.send("XREADGROUP GROUP g b BLOCK 0 CLAIM 99999999 STREAMS s >")
    reader.expect_blocked()
    group.expect("XNACK s g FAIL IDS 1 2-0", 1)
    reader.expect_reply(got(claimed(2, ANY, 1)))


@since("8.8")
def test_nack_errors(group: Server) -> None:
    """After an error of XNACK nothing has changed."""
    for command, reply in [
        ("XNACK none g FAIL IDS 1 1-0", "NOGROUP No such key 'none' or consumer group 'g'"),
        ("XNACK s none FAIL IDS 1 1-0", "NOGROUP No such key 's' or consumer group 'none'"),
        ("XNACK s g WAT IDS 1 1-0", "ERR mode must be SILENT, FAIL, or FATAL"),
        ("XNACK s none WAT IDS 1 1-0", "NOGROUP No such key 's' or consumer group 'none'"),
        ("XNACK s g FAIL IDS 0 1-0", "ERR numids must be a positive integer"),
        ("XNACK s g FAIL IDS x 1-0", "ERR numids must be a positive integer"),
        ("XNACK s g FAIL IDS 2 1-0", "ERR number of IDs doesn't match numids"),
        ("XNACK s g FAIL IDS 1 1-0 RETRYCOUNT x", "ERR Invalid RETRYCOUNT value, must be >= 0"),
        ("XNACK s g FAIL IDS 1 1-0 RETRYCOUNT -1", "ERR Invalid RETRYCOUNT value, must be >= 0"),
        ("XNACK s g FAIL IDS 1 1-0 WAT", "ERR Unrecognized XNACK option 'WAT'"),
        ("XNACK s g FAIL WAT 1 1-0", "ERR syntax error, expected IDS keyword"),
    ]:
        group.expect_error(command, reply)
        group.expect("XPENDING s g", [2, "1-0", "2-0", [["a", "2"]]])


@since("8.8")
def test_nack_of_invalid_ids(group: Server) -> None:
    """IDs are parsed before any change; a key of another type is an error."""
    group.expect("XNACK s g FAIL IDS 2 1-0 x", INVALID_ID)
    group.given("SET k v")
    group.expect("XNACK k g FAIL IDS 1 1-0", WRONGTYPE)
    group.expect("XPENDING s g", [2, "1-0", "2-0", [["a", "2"]]])


@since("8.8")
def test_info_of_nacked_entries(group: Server) -> None:
    """XINFO STREAM FULL counts NACKed entries and lists them with an empty consumer and a time of 0."""
    group.given("XNACK s g FAIL IDS 1 1-0")
    reply = group.run("XINFO STREAM s FULL")
    fields = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
    row = fields[b"groups"][0]
    row = row if isinstance(row, dict) else dict(zip(row[::2], row[1::2], strict=True))
    names = ["name", "last-delivered-id", "entries-read", "lag", "pel-count", "nacked-count", "pending", "consumers"]
    assert list(row) == [name.encode() for name in names]
    assert (row[b"pel-count"], row[b"nacked-count"]) == (2, 1)
    assert row[b"pending"] == [[b"1-0", b"", 0, 1], [b"2-0", b"a", ANY, 1]]


# -- MAXCOUNT and MAXSIZE ---------------------------------------------------------------------------------------------


@pytest.fixture
def three_streams(server: Server) -> Server:
    """Return a server with streams a, b, c of three entries each, and a group g on each."""
    for key in ("a", "b", "c"):
        server.given(*(f"XADD {key} {n}-0 f {key}{n}" for n in range(1, 4)), f"XGROUP CREATE {key} g 0")
    return server


def of(key: str, *numbers: int) -> list[Any]:
    return entries(*(f"{n}-0 f {key}{n}" for n in numbers))


@since("8.10")
@pytest.mark.parametrize(
    ("words", "reply"),
    [
        ("MAXCOUNT 100", {"a": (1, 2, 3), "b": (1, 2, 3), "c": (1, 2, 3)}),
        ("MAXCOUNT 4", {"a": (1, 2, 3), "b": (1,)}),
        ("MAXCOUNT 3", {"a": (1, 2, 3)}),
        ("COUNT 2 MAXCOUNT 5", {"a": (1, 2), "b": (1, 2), "c": (1,)}),
        ("COUNT 1 MAXCOUNT 2", {"a": (1,), "b": (1,)}),
        ("COUNT 0 MAXCOUNT 2", {"a": (1, 2)}),
        ("MAXCOUNT 1 COUNT 1", {"a": (1,)}),
        ("MAXSIZE 1", {"a": (1,)}),
        ("MAXSIZE 1000000", {"a": (1, 2, 3), "b": (1, 2, 3), "c": (1, 2, 3)}),
        ("MAXSIZE 1000000 MAXCOUNT 4", {"a": (1, 2, 3), "b": (1,)}),
    ],
)
def test_limits_over_all_streams(three_streams: Server, words: str, reply: dict[str, tuple[int, ...]]) -> None:
    """MAXCOUNT and MAXSIZE apply to the whole reply; streams for which nothing is left are omitted."""
    expected = Streams({key: of(key, *numbers) for key, numbers in reply.items()})
    three_streams.expect(f"XREAD {words} STREAMS a b c 0 0 0", expected)
    three_streams.expect(f"XREADGROUP GROUP g c {words} STREAMS a b c > > >", expected)
    for key in ("a", "b", "c"):
        delivered = len(reply.get(key, ()))
        consumers = three_streams.run(f"XINFO CONSUMERS {key} g")
        assert len(consumers) == (1 if key in reply else 0), key
        three_streams.expect(f"XPENDING {key} g - + 10", [[f"{n}-0", "c", ANY, 1] for n in range(1, delivered + 1)])


@since("8.10")
def test_the_size_is_soft(server: Server) -> None:
    """The entry that reaches MAXSIZE is still returned and the next one is not; only returned entries are delivered."""
    value = "x" * 100
    server.given(*(f"XADD s {n}-0 f {value}" for n in range(1, 10)), "XGROUP CREATE s g 0")
    reply = server.run("XREADGROUP GROUP g c MAXSIZE 300 STREAMS s >")
    rows = reply[b"s"] if isinstance(reply, dict) else reply[0][1]
    assert 2 <= len(rows) <= 4
    server.expect("XREADGROUP GROUP g c COUNT 1 STREAMS s >", Streams({"s": entries(f"{len(rows) + 1}-0 f {value}")}))


@since("8.10")
@pytest.mark.parametrize("command", ["XREAD {} STREAMS a 0", "XREADGROUP GROUP g c {} STREAMS a >"])
@pytest.mark.parametrize(
    ("words", "reply"),
    [
        ("MAXCOUNT 0", "ERR MAXCOUNT must be a positive integer"),
        ("MAXCOUNT -1", "ERR MAXCOUNT must be a positive integer"),
        ("MAXSIZE 0", "ERR MAXSIZE must be a positive integer"),
        ("MAXSIZE -5", "ERR MAXSIZE must be a positive integer"),
        ("COUNT 3 MAXCOUNT 2", "ERR MAXCOUNT must be greater than or equal to COUNT"),
        ("MAXCOUNT 2 COUNT 3", "ERR MAXCOUNT must be greater than or equal to COUNT"),
    ],
)
def test_errors_of_limits(three_streams: Server, command: str, words: str, reply: str) -> None:
    """Limits must be positive, and MAXCOUNT at least COUNT."""
    three_streams.expect_error(command.format(words), reply)


@since("8.10")
def test_maxcount_limits_a_reply_after_a_wait(server: Server) -> None:
    """MAXCOUNT also limits a reply after a wait."""
    reader = server.client()
    reader.send("XREAD BLOCK 0 MAXCOUNT 2 STREAMS s t 0 0")
    reader.expect_blocked()
    server.given("MULTI", "XADD s 1-0 f 1", "XADD t 1-0 f 1", "XADD t 2-0 f 2", "EXEC")
    reader.expect_reply(Streams({"s": entries("1-0 f 1"), "t": entries("1-0 f 1")}))


@since("7.2")
@hand_clock
def test_info_stream_full(group: Server) -> None:
    """XINFO STREAM FULL shows every group with its pending entries, and every consumer with its times."""
    delivered = group.now
    group.let_pass(40)
    group.given("XGROUP CREATECONSUMER s g b")
    created = group.now
    consumers = [
        Map(
            {
                "name": "a",
                "seen-time": delivered,
                "active-time": delivered,
                "pel-count": 2,
                "pending": [["1-0", delivered, 1], ["2-0", delivered, 1]],
            }
        ),
        Map({"name": "b", "seen-time": created, "active-time": -1, "pel-count": 0, "pending": []}),
    ]
    row = Map(
        {
            "name": "g",
            "last-delivered-id": "2-0",
            "entries-read": 2,
            "lag": 2,
            "pel-count": 2,
            "nacked-count": 0,
            "pending": [["1-0", "a", delivered, 1], ["2-0", "a", delivered, 1]],
            "consumers": consumers,
        }
    )
    full = {
        "length": 4,
        "radix-tree-keys": 1,
        "radix-tree-nodes": 2,
        "last-generated-id": "4-0",
        "max-deleted-entry-id": "0-0",
        "entries-added": 4,
        "recorded-first-entry-id": "1-0",
        "idmp-duration": 100,
        "idmp-maxsize": 100,
        "pids-tracked": 0,
        "iids-tracked": 0,
        "iids-added": 0,
        "iids-duplicates": 0,
        "entries": entries("1-0 f 1", "2-0 f 2", "3-0 f 3", "4-0 f 4"),
        "groups": [row],
    }
    group.expect("XINFO STREAM s FULL", Map(full))


def test_full_is_limited_by_count(server: Server) -> None:
    """XINFO STREAM FULL shows ten entries and pending entries by default; COUNT sets another number, or with 0 all."""
    for words, shown in [("", 10), ("COUNT 3", 3), ("COUNT 0", 20), ("COUNT -1", 10), ("count 50", 20)]:
        server.given("FLUSHALL")
        server.given(
            *(f"XADD s {n}-0 f v" for n in range(1, 21)), "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >"
        )
        reply = server.run(f"XINFO STREAM s FULL {words}")
        fields = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
        row = fields[b"groups"][0]
        row = row if isinstance(row, dict) else dict(zip(row[::2], row[1::2], strict=True))
        consumer = row[b"consumers"][0]
        consumer = consumer if isinstance(consumer, dict) else dict(zip(consumer[::2], consumer[1::2], strict=True))
        assert [len(fields[b"entries"]), len(row[b"pending"]), len(consumer[b"pending"])] == [shown] * 3
        assert row[b"pel-count"] == 20
