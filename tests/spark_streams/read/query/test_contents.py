"""Expected content of a range, from a table of interleavings and against a model of a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_streams.read.query.loss import Known, Loss, Read, find_missing
from spark_streams.read.query.planning import expect
from streamclient.streams.counting import Entries
from streamclient.streams.states import Range, StreamState
from streamwire.stream_id import ZERO, StreamId
from tests.suite.long import FULL


def at(ms: int) -> StreamId:
    return StreamId(ms, 0)


class Stream:
    """A stream with the counters of Redis 7. An entry is a pair of its ID and the number of recreations before it."""

    def __init__(self, entries: Sequence[int] = (), old: bool = False) -> None:
        self.made = 0
        self.exists = True
        self.old = old  # before Redis 7: no counters
        self.clear()
        self.add(*entries)

    def clear(self) -> None:
        self.entries: list[tuple[int, int]] = []
        self.last = self.added = self.deleted = 0

    def add(self, *ids: int) -> None:
        if not self.exists:
            self.exists, self.made = True, self.made + 1
            self.clear()
        for entry_id in ids:
            self.entries.append((entry_id, self.made))
            self.last, self.added = entry_id, self.added + 1

    def xdel(self, *ids: int) -> None:
        for entry_id in ids:
            if any(entry[0] == entry_id for entry in self.entries):
                self.entries = [entry for entry in self.entries if entry[0] != entry_id]
                self.deleted = max(self.deleted, entry_id)

    def xtrim(self, minid: int) -> None:
        self.entries = [entry for entry in self.entries if entry[0] >= minid]

    def remake(self, *ids: int) -> None:
        self.exists = False
        self.add(*ids)

    def delete(self) -> None:
        self.exists = False
        self.entries = []

    def between(self, after: int, upto: int) -> list[tuple[int, int]]:
        return [entry for entry in self.entries if after < entry[0] <= upto] if self.exists else []

    @property
    def state(self) -> StreamState | None:
        if not self.exists:
            return None
        first = at(self.entries[0][0]) if self.entries else None
        added, deleted = (None, ZERO) if self.old else (self.added, at(self.deleted))
        return StreamState(at(self.last), len(self.entries), first, None, added, deleted)


class Asked(Entries):
    """The server's replies to `expect`, for one stream."""

    def __init__(self, stream: Stream, *, cheap: bool = False) -> None:
        self.stream = stream
        self.counts_cheaply = cheap

    def counts(self, asked: Sequence[tuple[str, StreamId, StreamId]]) -> list[int]:
        return [len(self.stream.between(after.ms, upto.ms)) for _, after, upto in asked]

    def nths(self, asked: Sequence[tuple[str, StreamId, int, StreamId]]) -> list[tuple[StreamId, int]]:
        found = [self.stream.between(after.ms, upto.ms) for _, after, _, upto in asked]
        return [
            (at(entries[0][0]), 1) if entries else (upto, 0) for entries, (*_, upto) in zip(found, asked, strict=True)
        ]


class Reader:
    """A task that reads a planned range page by page."""

    def __init__(self, stream: Stream, after: int, upto: int, cheap: bool = False, page: int = 3) -> None:
        self.stream, self.page, self.at = stream, page, after
        state = stream.state
        assert state is not None
        part = Range("s", at(after), at(upto), 0)
        (self.part,) = expect([part], {"s": state}, Asked(stream, cheap=cheap))
        self.known = Known.of(state)
        self.planned = stream.between(after, upto)
        self.found: list[tuple[int, int]] = []
        self.got = Read()

    def read_page(self) -> bool:
        """Read a page; return False after the last one."""
        page = self.stream.between(self.at, self.part.upto.ms)[: self.page]
        self.found += page
        if not page:
            return False
        self.at = page[-1][0]
        self.got.entries += len(page)
        if self.part.count is None:
            self.got.follow(lambda n: at(page[n][0]), 0, len(page) - 1, lambda: self.stream.state)
        return True

    def read(self) -> Reader:
        while self.read_page():
            pass
        return self

    def loss(self) -> Loss | None:
        return find_missing(self.part, self.known, self.stream.state, self.got)

    @property
    def verdict(self) -> str:
        return verdict(self.loss())


def verdict(loss: Loss | None) -> str:
    return "whole" if loss is None else "another" if loss.recreated else "lost"


TEN = range(1, 11)
#: Planned ranges: the ID before the range, the range's last ID, and whether the server counts cheaply.
PLANS = {
    "whole stream": (0, 10, False),
    "from the middle": (4, 10, False),
    "to the middle": (0, 7, False),
    "the middle": (4, 7, False),
    "whole stream, engine": (0, 10, True),
    "the middle, engine": (4, 7, True),
}

HARMLESS: dict[str, Callable[[Stream], None]] = {
    "nothing": lambda stream: None,
    "entries added": lambda stream: stream.add(11, 12),
    "added and the new one deleted": lambda stream: (stream.add(11, 12), stream.xdel(12))[0],
    "deleted what was never there": lambda stream: stream.xdel(99),
}
BELOW: dict[str, Callable[[Stream], None]] = {
    "trimmed up to the start": lambda stream: stream.xtrim(5),
    "deleted before the start": lambda stream: stream.xdel(2),
    "deleted the last one before the start": lambda stream: stream.xdel(4),
    "trimmed below, and added": lambda stream: (stream.xtrim(4), stream.add(11))[0],
}
BEHIND: dict[str, Callable[[Stream], None]] = {
    "deleted behind the end": lambda stream: stream.xdel(8),
    "deleted the stream's last entry": lambda stream: stream.xdel(10),
}
LOST: dict[str, Callable[[Stream], None]] = {
    "trimmed in the range": lambda stream: stream.xtrim(7),
    "trimmed everything": lambda stream: stream.xtrim(99),
    "deleted in the range": lambda stream: stream.xdel(6),
}
ANOTHER: dict[str, Callable[[Stream], None]] = {
    "deleted": Stream.delete,
    "made again, empty": lambda stream: stream.remake(),
    "made again, shorter": lambda stream: stream.remake(1, 2, 3),
    "made again with later IDs": lambda stream: stream.remake(*range(21, 31)),
    "made again with smaller IDs": lambda stream: stream.remake(*range(1, 4)),
    "made again with a smaller first ID": lambda stream: stream.remake(*([1] if stream.entries[0][0] > 1 else []), 20),
}


@pytest.mark.parametrize("read", [False, True], ids=["before reading", "after reading"])
@pytest.mark.parametrize("name", ANOTHER)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("trimmed", [False, True])
def test_another_stream_of_that_name_is_noticed(plan: str, name: str, trimmed: bool, read: bool) -> None:
    """A recreated stream is detected by its IDs and counters; deleting a counted stream after it
    was read is no loss.
    """
    stream = Stream(TEN)
    if trimmed:
        stream.xtrim(3)
    reader = Reader(stream, *PLANS[plan])
    if read:
        reader.read()
    ANOTHER[name](stream)
    is_harmless = name == "deleted" and read and reader.part.count is not None
    assert reader.read().verdict == ("whole" if is_harmless else "another")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda s: s.xtrim(3), lambda s: s.remake(*TEN)),  # nothing was removed from the new one
        (lambda s: s.xtrim(3), lambda s: s.remake(1, *range(3, 11))),
        (lambda s: s.xdel(6), lambda s: s.remake(1, 2, 3, 4, 5, 7, 8, 9, 10)),
        (lambda s: s.xdel(6), lambda s: (s.remake(*TEN), s.xdel(2))),  # the largest deleted ID is smaller
        (lambda s: None, lambda s: s.remake(1, 10)),
        (lambda s: None, lambda s: s.remake(1, 2, 3, 4, 5, 10)),
    ],
    ids=["none removed", "fewer removed", "none deleted", "smaller deleted", "fewer added", "far fewer added"],
)
def test_the_same_ids_again_are_noticed_by_the_counters(
    before: Callable[[Stream], None], after: Callable[[Stream], None]
) -> None:
    """A recreated stream with the same first and last ID is detected by its counters of added and deleted entries."""
    stream = Stream(TEN)
    before(stream)
    reader = Reader(stream, 0, 10)
    after(stream)
    assert reader.read().verdict == "another"


def test_more_entries_than_were_counted_are_another_stream() -> None:
    """A range with more entries than were counted belongs to a recreated stream."""
    stream = Stream([1, 5, 10])
    reader = Reader(stream, 0, 10)
    stream.remake(1, 2, 3, 10)
    stream.xdel(99)
    assert reader.read().verdict == "another"


def test_a_server_without_counters() -> None:
    """Before Redis 7, a loss is detected by the length of a whole stream, and by the first entry of any other range."""
    for plan, event, expected in [
        ((0, 10), HARMLESS["entries added"], "whole"),
        ((0, 10), LOST["deleted in the range"], "lost"),
        ((0, 10), LOST["trimmed in the range"], "lost"),
        ((4, 10), LOST["trimmed in the range"], "lost"),
        ((4, 7), LOST["trimmed everything"], "lost"),
        ((4, 7), BELOW["trimmed up to the start"], "whole"),
        ((4, 7), ANOTHER["made again, shorter"], "another"),
        ((4, 7), LOST["deleted in the range"], "whole"),  # without counters a deletion is not detected
    ]:
        reader = Reader(Stream(TEN, old=True), *plan)
        event(reader.stream)
        assert reader.read().verdict == expected, (plan, expected)


def test_a_batch_that_is_planned_again_is_judged_by_the_state() -> None:
    """When a batch is planned again, only the state of the stream is compared with the offset."""
    part = Range("s", at(4), at(7), 0, head=at(5))
    known = Known(at(7), 7, at(1), deleted=ZERO)
    for event, expected in [
        *((event, "whole") for event in (HARMLESS | BELOW | BEHIND).values()),
        (LOST["trimmed in the range"], "lost"),
        (LOST["deleted in the range"], "lost"),
        (LOST["trimmed everything"], "lost"),
        (ANOTHER["deleted"], "another"),
        (ANOTHER["made again, shorter"], "another"),
        (lambda stream: stream.remake(1, 5, 6, 7), "another"),
    ]:
        stream = Stream(TEN)
        event(stream)
        assert verdict(find_missing(part, known, stream.state)) == expected


def test_counters_set_with_xsetid_before_planning_are_no_loss() -> None:
    """Counters set with XSETID before planning cause no loss, even if they contradict the entries."""
    state = Stream(TEN).state
    assert state is not None
    for added, deleted, last in [(3, ZERO, 10), (10**6, at(7), 99), (0, at(99), 99), (10, at(5), 10)]:
        odd = replace(state, entries_added=added, max_deleted_id=deleted, last_id=at(last))
        for after in (0, 4):
            part = _deduced_from(odd, after, last)
            done = Read(10 - after, 1, at(after + 1), at(10))
            assert find_missing(part, Known.of(odd), odd, done) is None


def _deduced_from(state: StreamState, after: int, upto: int) -> Range:
    part = Range("s", at(after), at(upto), 0)
    return expect([part], {"s": state}, Asked(Stream(TEN)))[0]


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 3)),
        st.tuples(st.just("xdel"), st.integers(1, 30)),
        st.tuples(st.just("xtrim"), st.integers(1, 30)),
        st.tuples(st.just("page"), st.just(0)),
    ),
    max_size=12,
)


def act(stream: Stream, event: tuple[str, int]) -> None:
    name, value = event
    if name == "add":
        stream.add(*range(stream.last + 1, stream.last + 1 + value))
    elif name == "xdel":
        stream.xdel(value)
    elif name == "xtrim":
        stream.xtrim(value)


@settings(max_examples=400 if FULL else 100, deadline=None)
@given(history=EVENTS, events=EVENTS, after=st.integers(0, 20), span=st.integers(1, 30), cheap=st.booleans())
def test_every_interleaving_of_a_reader_with_removals(
    history: list[tuple[str, int]], events: list[tuple[str, int]], after: int, span: int, cheap: bool
) -> None:
    """Every loss in a counted range is detected; in any other range every trim is detected, and there are no false
    losses.
    """
    stream = Stream(range(1, 21))
    for event in history:
        act(stream, event)
    upto = min(stream.last, after + span)
    if upto <= after:
        return
    reader = Reader(stream, after, upto, cheap, page=2)
    planned = {entry for entry, _ in reader.planned}
    for event in events:
        if event[0] == "page":
            reader.read_page()
            continue
        act(stream, event)
    reader.read()
    whole = reader.found == reader.planned
    removed = planned - {entry for entry, _ in stream.entries}
    if reader.part.count is not None:
        assert (reader.verdict == "whole") == whole
        if not whole:
            assert reader.verdict == "lost"
    elif not removed:
        assert whole
        assert reader.verdict == "whole"
    elif not whole and not any(name == "xdel" for name, _ in events):
        assert reader.verdict == "lost"
