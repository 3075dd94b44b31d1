"""PS.ADD: entries that arrive as columns equal the entries that XADD commands would add."""

from __future__ import annotations

import tracemalloc
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.commands.streams.columns import encoded
from engine.core.protocol import ids
from engine.core.protocol.replies import BLOCKED, NIL_ARRAY, CommandError
from engine.core.streams import segment
from engine.wire.parser import RequestParser
from streamwire.entry_batch import EntryBatch, Values
from streamwire.frames import frame
from tests.engine.core.commands.test_extensions import NOW, Client
from tests.harness.replay import check_replay

VALUES = st.one_of(
    st.lists(st.sampled_from([b"", b"a", b"1234", b"\r\n", b"$3\r\n"]), min_size=1, max_size=4),
    st.just([b"1234"]),
    st.just([b"v" * size for size in range(20)]),
)
FIELDS = st.lists(st.tuples(st.sampled_from([b"", b"f", b"temperature"]), VALUES), min_size=1, max_size=3)
COUNTS = st.sampled_from([1, 3, 33, 100, 400])
SEQUENCES = st.sampled_from([0, 7, 95, 9_980, 9_999, 10_000, 99_995, 123_456])


def words_of(fields: list[tuple[bytes, list[bytes]]], count: int) -> list[bytes]:
    """Return PS.ADD's arguments after the count; values are repeated as often as needed."""
    words = []
    for name, values in fields:
        rows = [values[row % len(values)] for row in range(count)]
        words += [name, np.array([0, *accumulate(map(len, rows))], "<i4").tobytes(), b"".join(rows)]
    return words


def rows_of(fields: list[tuple[bytes, list[bytes]]], count: int) -> list[list[bytes]]:
    """Return the words of each entry, as for XADD."""
    return [[word for name, values in fields for word in (name, values[row % len(values)])] for row in range(count)]


@given(FIELDS, COUNTS)
def test_ps_add_equals_single_xadds(fields, count):
    """PS.ADD adds the entries that single XADDs add, returns their number, and its effect can be replayed."""
    client, twin = Client(), Client()
    client.core.changes.recording = True
    for _ in range(2):
        assert client("PS.ADD", "s", count, *words_of(fields, count)) == count
        for row in rows_of(fields, count):
            twin("XADD", "s", "*", *row)
    check_replay(client.core, NOW)
    assert client("PS.STATE", "s") == twin("PS.STATE", "s")
    entries, wanted = (b"".join(run("XRANGE", "s", "-", "+").parts) for run in (client, twin))
    assert entries == wanted


@given(FIELDS, COUNTS, SEQUENCES, st.sampled_from([0, 32, 1 << 30]))
def test_both_ways_to_build_rows_give_the_same_frames(fields, count, seq, few):
    """Rows have the same frames and XADD commands whether numpy copies the columns or rows are encoded one by one."""
    words = words_of(fields, count)
    parts = list(zip(words[::3], words[1::3], words[2::3], strict=True))
    columns = [Values.checked(values, bounds, count) for _, bounds, values in parts]
    batch = EntryBatch(count, tuple(words[::3]), tuple(columns))
    ms = 1_518_951_480_106
    frames, sizes, commands = encoded(batch, ms, seq, b"%d key", few)
    assert encoded(batch, ms, seq, None, few)[2] == b""
    wanted = rows_of(fields, count)
    plain = [frame(b"%d-%d" % (ms, seq + at), row) for at, row in enumerate(wanted)]
    assert (frames, list(sizes)) == (b"".join(plain), [*map(len, plain)])
    found = RequestParser().parse(commands)
    assert found == [[b"XADD", b"%d key", b"%d-%d" % (ms, seq + at), *row] for at, row in enumerate(wanted)]


def positions(*numbers: int) -> bytes:
    """Return positions in the encoding of PS.ADD."""
    return np.array(numbers, "<i4").tobytes()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("x", "f", positions(0, 1), b"a"), b"not an integer"),
        (("-1", "f", positions(0, 1), b"a"), b"count must be"),
        (("1", "f", positions(0, 1)), b"wrong number"),
        (("1",), b"wrong number"),
        (("1", "f", positions(0, 1, 1), b"a"), b"a column must be"),
        (("1", "f", positions(0, 2), b"a"), b"a column must be"),
        (("1", "f", positions(1, 1), b"a"), b"a column must be"),
        (("2", "f", positions(0, 2, 1), b"a"), b"a column must be"),
        (("1", "f", b"\0\0\0", b"a"), b"a column must be"),
        (("0", "f", b"", b""), b"a column must be"),
        (("600", "f" * 1_000_000, positions(*[0] * 601), b""), b"more than 512 megabytes"),
    ],
)
def test_invalid_columns_add_nothing(words, reason):
    """Positions that do not divide the values, an incomplete column and too much data are errors; no stream is made."""
    run = Client()
    reply = run("PS.ADD", "s", *words)
    assert isinstance(reply, CommandError)
    assert reason in reply.text
    assert run("EXISTS", "s") == 0


@pytest.mark.parametrize(
    ("key", "count", "positions", "reason"),
    [
        ("s", 1, bytes(40_000_000), b"a column must be"),
        ("s", 1 << 24, bytes(4 * ((1 << 24) + 1)), b"more than 512 megabytes"),
        ("k" * 1_000_000, 1_000, bytes(4_004), b"more than 512 megabytes"),
    ],
)
def test_rejected_columns_use_little_memory(key, count, positions, reason):
    """Too many positions or entries, and a key that would make the log too long, are rejected with little memory."""
    run = Client()
    tracemalloc.start()
    reply = run("PS.ADD", key, count, "f", positions, b"")
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
    assert reason in reply.text


@pytest.mark.parametrize("count", [3, 70])
@pytest.mark.parametrize(
    ("ms", "left", "last"),
    [(ids.U64_MAX, 0, b"%d-%d" % (ids.U64_MAX, ids.U64_MAX)), (2**60, 0, b"%d-%d" % (2**60, ids.U64_MAX)),
     (ids.U64_MAX, -1, None), (2**60, -1, b"%d-" % (2**60 + 1))],
)  # fmt: skip
def test_sequence_numbers_up_to_the_last(ms, left, last, count):
    """A count that exactly uses up a millisecond's sequence numbers succeeds.

    If one is missing, all entries get the next millisecond; without a next millisecond PS.ADD fails and adds nothing.
    """
    run = Client()
    run("XADD", "s", "1-1", "f", "v")
    run("XSETID", "s", f"{ms}-{ids.U64_MAX - count - left}")
    reply = run("PS.ADD", "s", count, *words_of([(b"f", [b"v"])], count))
    if last is None:
        assert b"exhausted" in reply.text
        assert run("XLEN", "s") == 1
    else:
        assert reply == count
        assert run("PS.STATE", "s")[:2] == [last + b"%d" % (count - 1) if left else last, count + 1]


def test_a_count_of_zero_adds_nothing():
    """With a count of 0 the reply is 0 and no stream is created; a key of another type is still an error."""
    run = Client()
    run("SET", "text", "v")
    assert run("PS.ADD", "s", 0, "f", positions(0), b"") == 0
    assert run("EXISTS", "s") == 0
    assert b"WRONGTYPE" in run("PS.ADD", "text", 0, "f", positions(0), b"").text


def test_blocked_readers_and_watches_notice_columns():
    """A blocked reader gets the entries, a watching transaction fails, and each entry is a keyspace event."""
    run, reader, watcher = Client(), Client(), Client()
    for other in (reader, watcher):
        other.core, other.session = run.core, run.core.open_session(NOW)
    watcher("WATCH", "s")
    watcher("MULTI")
    assert reader("XREAD", "BLOCK", "0", "STREAMS", "s", "$") is BLOCKED
    events: list[tuple[object, ...]] = []
    run.core.changes.on_event = lambda *event: events.append(event)
    run("PS.ADD", "s", 3, "f", positions(0, 1, 2, 3), b"abc")
    assert reader.session.waiter is None
    assert watcher("EXEC") is NIL_ARRAY
    assert sum(b"xadd" in event for event in events) == 3


def test_a_few_large_rows_before_many_small_ones_make_no_large_segment():
    """No segment is too large if many small entries follow a few large ones, and the entries equal those of XADDs."""
    run, other = Client(), Client()
    values = [b"v" * 200_000] * 20 + [b"v"] * 2_000
    run("PS.ADD", "s", 2_020, *words_of([(b"f", values)], 2_020))
    for value in values:
        other("XADD", "s", "*", "f", value)
    stream, expected = (client.core.databases[0].stream(b"s") for client in (run, other))
    assert max(part.body.data_size for part in stream.pieces()) < 2 * segment.SEGMENT_BYTES
    assert b"".join(stream.range(0, ids.MAX_ID, 0).parts) == b"".join(expected.range(0, ids.MAX_ID, 0).parts)
