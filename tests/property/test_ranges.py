"""XRANGE, XREVRANGE, XREAD and XLEN agree with a plain list after any additions, deletions and trims."""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.core import CoreServer

ID = tuple[int, int]
MS = st.integers(0, 40)
SEQ = st.one_of(st.integers(0, 3), st.just(2**64 - 1))
#: Steps that change the stream: name of the step and two numbers.
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("add"), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("add many"), st.integers(1, 60), st.just(0)),
        st.tuples(st.just("delete"), st.integers(0, 10_000), st.just(0)),
        st.tuples(st.just("delete stretch"), st.integers(0, 10_000), st.integers(1, 40)),
        st.tuples(st.just("maxlen"), st.integers(0, 150), st.just(0)),
        st.tuples(st.just("minid"), st.integers(0, 10_000), st.just(0)),
    ),
    min_size=1,
    max_size=25,
)
BOUND = st.one_of(st.just(None), st.tuples(MS, st.one_of(st.none(), SEQ), st.booleans()))
QUERIES = st.lists(st.tuples(BOUND, BOUND, st.one_of(st.none(), st.integers(1, 8))), min_size=1, max_size=8)


class Naive:
    """A stream as a sorted list of IDs with numbers as values."""

    def __init__(self) -> None:
        self.entries: list[tuple[ID, int]] = []
        self.last: ID = (0, 0)

    def range(self, low: ID, high: ID) -> list[tuple[ID, int]]:
        return [entry for entry in self.entries if low <= entry[0] <= high]


def text(entry_id: ID) -> str:
    return f"{entry_id[0]}-{entry_id[1]}"


def change(server: CoreServer, naive: Naive, step: str, first: int, second: int) -> None:
    """Apply the same change to both streams."""
    if step.startswith("add"):
        for _ in range(first if step == "add many" else 1):
            ms, seq = naive.last
            delta = (0, 1) if step == "add many" else (first, second)
            new = (ms + delta[0], seq + 1 + delta[1]) if delta[0] == 0 else (ms + delta[0], delta[1])
            server.expect(("XADD", "s", text(new), "n", len(naive.entries)), text(new))
            naive.entries.append((new, len(naive.entries)))
            naive.last = new
    elif not naive.entries:
        return
    elif step.startswith("delete"):
        at = first % len(naive.entries)
        deleted = naive.entries[at : at + max(second, 1)]
        del naive.entries[at : at + max(second, 1)]
        server.expect(("XDEL", "s", *(text(entry_id) for entry_id, _ in deleted)), len(deleted))
    elif step == "maxlen":
        removed = max(len(naive.entries) - first, 0)
        del naive.entries[:removed]
        server.expect(f"XTRIM s MAXLEN {first}", removed)
    else:
        at = first % len(naive.entries)
        border = naive.entries[at][0]
        del naive.entries[:at]
        server.expect(f"XTRIM s MINID {text(border)}", at)


def low_end(bound: Any) -> tuple[str, ID]:
    """Return a low end as text, and the smallest ID that it includes."""
    if bound is None:
        return "-", (0, 0)
    ms, seq, exclusive = bound
    word = str(ms) if seq is None else f"{ms}-{seq}"
    first = (ms, seq or 0)
    if not exclusive:
        return word, first
    return "(" + word, (ms + 1, 0) if first[1] == 2**64 - 1 else (ms, first[1] + 1)


def high_end(bound: Any) -> tuple[str, ID]:
    """Return a high end as text, and the greatest ID that it includes."""
    top = 2**64 - 1
    if bound is None:
        return "+", (top, top)
    ms, seq, exclusive = bound
    word = str(ms) if seq is None else f"{ms}-{seq}"
    last = (ms, top if seq is None else seq)
    if not exclusive:
        return word, last
    if last == (0, 0):
        return word, last  # No ID precedes 0-0, so that end would be an error.
    return "(" + word, (ms - 1, top) if last[1] == 0 else (ms, last[1] - 1)


def as_reply(entries: list[tuple[ID, int]]) -> list[Any]:
    return [[text(entry_id), ["n", str(number)]] for entry_id, number in entries]


@given(CHANGES, QUERIES)
def test_ranges_equal_those_of_a_list(changes: list[tuple[str, int, int]], queries: list[Any]) -> None:
    """Every range, in both directions and with COUNT, has exactly the entries of the list."""
    server, naive = CoreServer(2), Naive()
    for step in changes:
        change(server, naive, *step)
    server.expect("XLEN s", len(naive.entries))
    for low, high, count in queries:
        (low_word, first), (high_word, last) = low_end(low), high_end(high)
        expected = naive.range(first, last)
        option = "" if count is None else f" COUNT {count}"
        server.expect(f"XRANGE s {low_word} {high_word}{option}", as_reply(expected[:count]))
        server.expect(f"XREVRANGE s {high_word} {low_word}{option}", as_reply(expected[::-1][:count]))


@given(CHANGES, st.integers(0, 10_000), st.integers(1, 20))
def test_reading_in_pages(changes: list[tuple[str, int, int]], point: int, count: int) -> None:
    """XREAD and XREADGROUP in pages return every live entry after an ID once and in order."""
    server, naive = CoreServer(2), Naive()
    for step in changes:
        change(server, naive, *step)
    start: ID = naive.entries[point % len(naive.entries)][0] if naive.entries else (0, 0)
    expected = [entry_id for entry_id, _ in naive.entries[bisect_left(naive.entries, (start, -1)) :]]
    expected = [entry_id for entry_id in expected if entry_id > start]
    server.given(f"XGROUP CREATE s g {text(start)} MKSTREAM")
    for command in ("XREAD COUNT {count} STREAMS s {at}", "XREADGROUP GROUP g c COUNT {count} STREAMS s >"):
        met: list[bytes] = []
        at = text(start)
        while (reply := server.run(command.format(count=count, at=at))) is not None:
            page = [entry[0] for entry in reply[0][1]]
            assert 0 < len(page) <= count
            met += page
            at = page[-1].decode()
        assert met == [text(entry_id).encode() for entry_id in expected]


@cache
def long_streams() -> CoreServer:
    """Return a core with a stream ``long`` of twenty thousand entries."""
    server = CoreServer(2)
    for n in range(1, 20_001):
        server.core.execute(server.main.session, [b"XADD", b"long", b"%d-0" % n, b"n", b"%d" % n], server.clock.now_us)
    server.core.changes.recording = False
    server.core.changes.effects.clear()
    return server


@settings(max_examples=10)
@given(
    st.integers(1, 9000),
    st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 400)), max_size=6),
    st.integers(1, 500),
)
def test_ranges_over_many_segments(trimmed: int, holes: list[tuple[int, int]], count: int) -> None:
    """Ranges of a stream with several segments and with deleted entries have exactly the entries of the list."""
    server = long_streams()
    server.given("DEL s", "COPY long s")
    naive = Naive()
    naive.entries = [((n, 0), n) for n in range(1, 20_001)]
    for at, size in holes:
        change(server, naive, "delete stretch", at, size)
    change(server, naive, "maxlen", 20_000 - trimmed, 0)
    assert [int(entry[1][1]) for entry in server.run("XRANGE s - +")] == [number for _, number in naive.entries]
    for n in (1, trimmed - 1, trimmed, trimmed + 1, 8192, 8193, 16384, 19_999):
        expected = naive.range((n, 0), (20_000, 0))
        server.expect(f"XRANGE s {n} + COUNT {count}", as_reply(expected[:count]))
        expected = naive.range((0, 0), (n, 0))
        server.expect(f"XREVRANGE s {n} - COUNT {count}", as_reply(expected[::-1][:count]))
