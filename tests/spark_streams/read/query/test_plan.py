"""Batch plans, from a table: entries, ranges, tasks, and requests to the server."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_streams.config.read import LimitOptions
from spark_streams.read.query.offsets import Offsets
from spark_streams.read.query.planning import Part, plan, tasks_between
from streamclient.streams.states import Range
from tests.spark_streams.read.memory import Memory, Stream, at

_LIMITS = {each.name for each in fields(LimitOptions)}


@dataclass(frozen=True)
class Case:
    """A case: `streams` in the notation of `Memory`, limits and other facts, and the expected batch as `text` writes
    it.
    """

    why: str
    streams: str
    parameters: dict[str, Any]
    batch: str


def case(why: str, streams: str, batch: str, **parameters: Any) -> Case:
    return Case(why, streams, parameters, batch)


def planned(memory: Memory, begin: Offsets, **parameters: Any) -> tuple[Offsets, dict[str, Part]]:
    """Return the end of the planned batch, and its parts by stream; `parameters` are limits and facts."""
    limits = LimitOptions(**{name: value for name, value in parameters.items() if name in _LIMITS})
    memory.counts_cheaply = parameters.pop("counts_cheaply", False)
    facts = memory.facts(**{name: value for name, value in parameters.items() if name not in _LIMITS})
    parts = {name: stream.part for name, stream in memory.streams.items()}
    return plan(begin, list(parts.values()), facts, limits, memory), parts


def text(begin: Offsets, end: Offsets) -> str:
    """Return the batch as text: each range with its number of entries, tasks separated by bars; "-" if the batch is
    empty.
    """
    if end is begin:
        return "-"
    parts = [" ".join(map(_range, task)) for task in tasks_between(begin, end)]
    parts += [f"{stream} starts with {head.ms}" for stream, head in sorted(end.heads.items())]
    parts += [f"{stream} lost {count}" for stream, count in sorted(end.lost.items())]
    return " | ".join(parts)


def _range(part: Range) -> str:
    return f"{part.stream}({part.after.ms},{part.upto.ms}]" + ("" if part.count is None else f"={part.count}")


CASES = [
    # Without limits: everything up to the streams' ends.
    case("all entries of a new stream", "a 1-10", "a(0,10]=10"),
    case("entries behind the position", "a 1-10 @4", "a(4,10]=6"),
    case("nothing new", "a 1-10 @10", "-"),
    case("an empty stream", "a -", "-"),
    case("a missing stream", "a none", "-"),
    case("a stream that vanished after it was read", "a none @4", "-"),
    case("a stream that was emptied before the query", "a - last=10 trimmed=10", "a(0,10]=0"),
    case("a position between two entries", "a 1-4,8-9 @6", "a(6,9]=2"),
    case("a position ahead of the stream", "a 1-10 @20", "-"),
    case("every stream with new entries", "a 1-10 @10; b 1-3; c 5", "b(0,3]=3 | c(0,5]=1"),
    case("streams in the order of their names", "b 1-2; a 1-2", "a(0,2]=2 | b(0,2]=2"),
    case("a server without counters", "a 3-10 old", "a(0,10]"),
    case("a server without counters, from the middle on", "a 1-10 old @4", "a(4,10]"),
    case("the first entry of a range that was not counted", "a 1-10 uncounted @4", "a(4,10] | a starts with 5"),
    case("a server that counts uncounted entries", "a 1-10 uncounted @4", "a(4,10]=6", counts_cheaply=True),
    case("a stream that was found just now is counted in the offset", "a 1-10 new", "a(0,10]=10"),
    case("a stream read from its beginning again", "a 1-10 jumps", "a(0,10]=10"),
    case("entries were lost before the batch", "a 5-10 @2 trimmed=4 lost=2", "a(2,10]=6 | a lost 2"),
    case("a stream that was deleted when all was read", "a none @4 retired; b 1-2", "b(0,2]=2"),
    case("only a deleted stream", "a none @4 retired", "-"),
    # maxEntriesPerTrigger: the exact number, divided in proportion to the backlogs.
    case("a limit", "a 1-10", "a(0,4]=4", max_entries=4),
    case("a limit from the middle on", "a 1-10 @4", "a(4,7]=3", max_entries=3),
    case("a limit above what is there", "a 1-10", "a(0,10]=10", max_entries=11),
    case("a limit that just fits", "a 1-10", "a(0,10]=10", max_entries=10),
    case("a limit with gaps between IDs", "a 1,5,9,12", "a(0,9]=3", max_entries=3),
    case("a limit among equal streams", "a 1-10; b 1-10", "a(0,2]=2 | b(0,2]=2", max_entries=4),
    case("a limit in proportion", "a 1-10; b 1-30", "a(0,2]=2 | b(0,6]=6", max_entries=8),
    case("nothing for streams without new entries", "a 1-9 @9; b 1-9", "b(0,4]=4", max_entries=4),
    case("fewer entries than streams: the first in turn", "a 1-5; b 1-5; c 1-5", "b(0,1]=1", max_entries=1),
    case("a server that counts", "a 1-10; b 1-30", "a(0,2]=2 | b(0,6]=6", max_entries=8, counts_cheaply=True),
    case("a limit without counters", "a 1-10 old", "a(0,4]=4", max_entries=4),
    case("a limit without counters from the middle", "a 1-10 old @4", "a(4,7]=3", max_entries=3),
    case("an estimate that is too small is made up for", "a 1-3,90-99 old @3", "a(3,94]=5", max_entries=5),
    case("a stream gets what another lacks", "a 1,90 old @1; b 1-9", "a(1,90] | b(0,5]=5", max_entries=6),
    case("lost entries with a limit", "a 5-10 @2 trimmed=4 lost=2", "a(2,7]=3 | a lost 2", max_entries=3),
    # minEntriesPerTrigger, until maxTriggerDelay has passed.
    case("the first batch does not wait", "a 1-2", "a(0,2]=2", min_entries=5),
    case("too few", "a 1-2", "-", min_entries=5, waited=1000),
    case("enough", "a 1-5", "a(0,5]=5", min_entries=5, waited=1000),
    case("enough in several streams", "a 1-2; b 1-3", "a(0,2]=2 | b(0,3]=3", min_entries=5, waited=1000),
    case("too few in several streams", "a 1-2; b 1-2", "-", min_entries=5, waited=1000),
    case("the delay is over", "a 1-2", "a(0,2]=2", min_entries=5, waited=900_000),
    case("just before the delay is over", "a 1-2", "-", min_entries=5, waited=899_999),
    case("another delay", "a 1-2", "a(0,2]=2", min_entries=5, waited=50, max_delay=50),
    case("AvailableNow does not wait", "a 1-2 to=2", "a(0,2]=2", min_entries=5, waited=0),
    case("nothing is not enough after any delay", "a 1-2 @2", "-", min_entries=5, waited=10**9),
    case("enough is counted without counters", "a 1-9 old @4", "a(4,9]", min_entries=5, waited=0),
    case("too few without counters", "a 1-9 old @5", "-", min_entries=5, waited=0),
    case("a minimum and a limit", "a 1-9", "a(0,6]=6", min_entries=5, max_entries=6, waited=0),
    # Trigger.AvailableNow: up to the end of the stream at the query's start.
    case("only to the target", "a 1-10 to=6", "a(0,6]=6"),
    case("from the middle to the target", "a 1-10 @4 to=6", "a(4,6]=2"),
    case("the target is reached", "a 1-10 @6 to=6", "-"),
    case("a stream without a target", "a 1-10 to=6; b 1-3", "a(0,6]=6"),
    case("a limit below the target", "a 1-10 to=6", "a(0,4]=4", max_entries=4),
    case("a limit above the target", "a 1-10 to=6", "a(0,6]=6", max_entries=8),
    case("a target that was deleted", "a 1-4 last=6 deleted=6 to=6", "a(0,6]=4"),
    # Partitions.
    case("two partitions", "a 1-10", "a(0,5]=5 | a(5,10]=5", min_partitions=2),
    case("no more partitions than entries", "a 1-2", "a(0,1]=1 | a(1,2]=1", min_partitions=5),
    case("in proportion", "a 1-2; b 1-6", "a(0,2]=2 | b(0,2]=2 | b(2,4]=2 | b(4,6]=2", min_partitions=4),
    case("streams are partitions already", "a 1-2; b 1-2", "a(0,2]=2 | b(0,2]=2", min_partitions=2),
    case("a maximum for each", "a 1-10", "a(0,3]=3 | a(3,6]=3 | a(6,10]=4", max_per_partition=4),
    case("a maximum with a limit", "a 1-10", "a(0,3]=3 | a(3,6]=3", max_per_partition=3, max_entries=6),
    case("a limit cut in two", "a 1-10", "a(0,3]=3 | a(3,6]=3", min_partitions=2, max_entries=6),
    case("a target cut in two", "a 1-10 to=4", "a(0,2]=2 | a(2,4]=2", min_partitions=2),
    case("cut without counters", "a 1-4 old", "a(0,2]=2 | a(2,4]=2", min_partitions=2),
    case("cut on a server that counts", "a 1-4", "a(0,2]=2 | a(2,4]=2", min_partitions=2, counts_cheaply=True),
    # Tasks.
    case("small streams share tasks", "a 1; b 1; c 1; d 1", "a(0,1]=1 b(0,1]=1 | c(0,1]=1 d(0,1]=1", cores=2),
    case("one task", "a 1; b 1; c 1", "a(0,1]=1 b(0,1]=1 c(0,1]=1", max_partitions=1),
    case("no more than two", "a 1; b 1; c 1; d 1", "a(0,1]=1 b(0,1]=1 | c(0,1]=1 d(0,1]=1", max_partitions=2),
    case("a large stream has its own", "a 1-900; b 1; c 1", "a(0,900]=900 | b(0,1]=1 c(0,1]=1", cores=2),
    case("a task keeps the maximum", "a 1-3; b 1-3", "a(0,3]=3 | b(0,3]=3", max_partitions=1, max_per_partition=4),
]


@pytest.mark.parametrize("example", CASES, ids=lambda example: example.why)
def test_a_batch_has_these_entries(example: Case) -> None:
    """The entries of a batch follow from the streams, the limits and the other facts."""
    memory = Memory.of(example.streams)
    begin = memory.begin
    assert text(begin, planned(memory, begin, **example.parameters)[0]) == example.batch


@pytest.mark.parametrize(
    ("streams", "parameters", "asked"),
    [
        ("a 1-10; b 1-10 @4", {}, []),
        ("a 1-10", {"max_entries": 10}, []),
        ("a 1-10; b 1-10", {"max_entries": 4}, ["nths"]),
        ("a 1-10 @2 to=6", {"max_entries": 4, "counts_cheaply": True}, ["counts"]),
        ("a 1-10 @4", {"min_entries": 5, "waited": 0}, []),
        ("a 1-10 old @4", {"min_entries": 5, "waited": 0}, ["nths"]),
        ("a 1-10", {"min_partitions": 2}, ["splits"]),
        ("a 1-10", {"min_partitions": 2, "counts_cheaply": True}, ["counts", "splits"]),
        ("a 1-10 uncounted @4", {}, ["nths"]),
        ("a 1-10 uncounted @4", {"counts_cheaply": True}, ["counts"]),
        ("a 1-10 @10; b none", {"max_entries": 4, "min_entries": 2, "min_partitions": 3}, []),
    ],
)
def test_a_plan_sends_only_the_requests_it_needs(streams: str, parameters: dict[str, Any], asked: list[str]) -> None:
    """A plan sends no requests if the states of the streams are enough, and few otherwise."""
    memory = Memory.of(streams)
    planned(memory, memory.begin, **parameters)
    assert memory.asked == asked


def test_streams_without_new_entries_are_quiet() -> None:
    """Streams without entries for the batch are quiet, and their losses are counted."""
    memory = Memory.of("a 1-4 @4; b 1-4 @4 lost=2; c - new; d 1-4; e none @2 retired")
    end, parts = planned(memory, memory.begin)
    assert {name for name, part in parts.items() if part.is_quiet} == {"a", "b", "c", "e"}
    assert {name for name, part in parts.items() if part.is_read} == {"a", "b", "d", "c"}
    assert (end.lost, end.streams.keys(), end.cuts) == ({"b": 2}, {"a", "b", "c", "d"}, {})


def test_a_stream_with_one_range_has_no_cuts() -> None:
    """The offset contains cuts only for streams with several ranges."""
    memory = Memory.of("a 1-3; b 1-6")
    end, _ = planned(memory, memory.begin, max_per_partition=4)
    assert end.cuts == {"b": ((at(3), 3), (at(6), 3))}


def test_a_limited_offset_has_unread_streams_and_deletions() -> None:
    """The offset of a limited batch contains unread streams, first entries, and deleted entries after its end."""
    memory = Memory.of("a 2-10 trimmed=1 deleted=11; b 1-2")
    end, _ = planned(memory, memory.begin, max_entries=5)
    assert end.unread == {"a", "b"}
    assert (end.deleted, end.firsts) == ({"a": at(11)}, {"a": at(2), "b": at(1)})


@pytest.mark.parametrize("finds", [True, False])
def test_streams_of_another_pattern_are_dropped(*, finds: bool) -> None:
    """A query with a pattern drops streams that it no longer finds; a query that names its streams keeps their
    positions.
    """
    memory = Memory.of("a 1-4; b 1-4 @2")
    begin = memory.begin
    del memory.streams["b"]
    end, _ = planned(memory, begin, finds_streams=finds)
    assert end.streams == {"a": at(4)} | ({} if finds else {"b": at(2)})


def test_the_offset_has_the_start_of_a_first_batch() -> None:
    """A first batch that starts at the end of a stream stores that start in the offset for its replay."""
    memory = Memory.of("a 1-9 @4; b 1-9 @4")
    end, _ = planned(memory, memory.begin, latest_starts={"a": at(4), "b": at(3)})
    assert end.jumps == {"a": at(4)}


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    """Generate partly read streams on a server with or without counters."""
    flags = draw(st.sampled_from([frozenset(), frozenset({"old"})]))
    streams = {}
    for name in draw(st.sets(st.sampled_from("abcde"), min_size=1)):
        ids = sorted(draw(st.sets(st.integers(1, 300), max_size=50)))
        after = draw(st.sampled_from([0, *ids]))
        streams[name] = Stream(name, ids, after, last=max(ids, default=0), flags=flags)
    return Memory(streams)


LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "max_entries": st.integers(1, 60),
        "min_partitions": st.integers(1, 9),
        "max_per_partition": st.integers(1, 20),
        "max_partitions": st.integers(9, 20),
        "counts_cheaply": st.booleans(),
    },
)


@settings(deadline=None)
@given(memories(), LIMITS)
def test_batches_have_every_entry_once(memory: Memory, limits: dict[str, Any]) -> None:
    """Batches keep the limit, never go back, and together contain each entry once."""
    left = {name: memory.between(name, at(state.after), at(999)) for name, state in memory.streams.items()}
    begin = memory.begin
    for turn in range(1, 400):
        end, _ = planned(memory, begin, **limits, rotation=turn)
        if end is begin:
            break
        tasks = tasks_between(begin, end)
        ranges = list(chain.from_iterable(tasks))
        entries = {part: memory.between(part.stream, part.after, part.upto) for part in ranges}
        assert all(part.count in (None, len(ids)) for part, ids in entries.items())
        assert sum(map(len, entries.values())) <= limits.get("max_entries", 10**9)
        assert all(len(ids) <= limits.get("max_per_partition", 10**9) for ids in entries.values())
        for stream in memory.streams:
            after, upto = begin.of(stream), end.of(stream)
            parts = [part for part in ranges if part.stream == stream]
            assert upto >= after
            assert [part.after for part in parts] + [upto] == [after] + [part.upto for part in parts]
            batch = list(chain.from_iterable(entries[part] for part in parts))
            assert batch == left[stream][: len(batch)]
            left[stream] = left[stream][len(batch) :]
            memory.streams[stream].after = upto.ms
        begin = end
    assert not any(left.values())
