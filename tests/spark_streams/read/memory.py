"""Streams in memory, described by short texts: the input of a plan and the replies to its requests."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spark_streams.read.query.loss import Baseline, Loss
from spark_streams.read.query.offsets import Offsets, Source
from spark_streams.read.query.planning import Facts, Part
from streamclient.streams.counting import Entries
from streamclient.streams.states import Cut, Range, StreamState
from streamwire.stream_id import ZERO, StreamId


def at(ms: int) -> StreamId:
    """Return the ID of the entry with this number in the texts of streams."""
    return StreamId(ms, 0)


@dataclass
class Stream:
    """A stream and a query's position in it.

    The text of a stream is its name, its entries ("1-10", "1-3,7", "-" for an empty and "none" for a missing stream),
    and any of these words:

    * "@4": the query has read up to 4
    * "trimmed=4": four entries were trimmed
    * "deleted=7": the entry 7 was deleted
    * "last=9": the stream's last ID, if its entry was deleted
    * "to=6": the end for Trigger.AvailableNow
    * "old": the server has no counters
    * "uncounted": the number of entries before the position is unknown
    * "new": the stream is not in the previous offset
    * "jumps", "lost=3", "retired": see `Part`
    """

    name: str
    ids: list[int] | None
    after: int = 0
    removed: int = 0
    deleted: int = 0
    last: int = 0
    target: int | None = None
    flags: frozenset[str] = frozenset()
    lost: int = 0

    @classmethod
    def of(cls, text: str) -> Stream:
        """Return the stream that the text describes."""
        name, entries, *words = text.split()
        ids = None if entries == "none" else [n for part in entries.split(",") for n in _span(part)]
        attributes = dict(word.split("=") for word in words if "=" in word)
        deleted = int(attributes.get("deleted", 0))
        return cls(
            name,
            ids,
            after=next((int(word[1:]) for word in words if word[0] == "@"), 0),
            removed=int(attributes.get("trimmed", 0)) + bool(deleted),
            deleted=deleted,
            last=max([*(ids or ()), deleted, int(attributes.get("last", 0))]),
            target=int(attributes["to"]) if "to" in attributes else None,
            flags=frozenset(word for word in words if "=" not in word and word[0] != "@"),
            lost=int(attributes.get("lost", 0)),
        )

    def between(self, after: StreamId, upto: StreamId) -> list[int]:
        """Return the entries in (after, upto]."""
        ids = self.ids or []
        return ids[bisect_right(ids, after.ms) : bisect_right(ids, upto.ms)]

    @property
    def state(self) -> StreamState | None:
        """Return the server's state of the stream."""
        if self.ids is None:
            return None
        first = at(self.ids[0]) if self.ids else None
        added = None if "old" in self.flags else len(self.ids) + self.removed
        return StreamState(at(self.last), len(self.ids), first, None, added, at(self.deleted))

    @property
    def added_before(self) -> int | None:
        """Number of entries ever added up to the query's position; None if unknown."""
        if self.flags & {"old", "uncounted"}:
            return None
        left = len(self.between(at(self.after), at(self.last)))
        return 0 if self.ids is None else len(self.ids) + self.removed - left

    @property
    def part(self) -> Part:
        """Return the stream's part of the next batch, with its start."""
        state = self.state
        known = Baseline(at(self.after), self.added_before, first=state.first_id if state else None)
        backlog = None if state is None else state.exact_backlog(at(self.after))
        if backlog is None and known.added is not None:
            backlog = len(self.between(at(self.after), at(self.last)))
        lost = Loss("", at(self.after), upto=at(self.after), count=self.lost) if self.lost else None
        return Part(
            self.name,
            state,
            known,
            is_new="new" in self.flags,
            jumps="jumps" in self.flags,
            loss=lost,
            backlog=backlog,
            retired="retired" in self.flags,
        )


@dataclass
class Memory(Entries):
    """A server with these streams. `asked` collects the kinds of requests that it answers."""

    streams: dict[str, Stream]
    asked: list[str] = field(default_factory=list)
    counts_cheaply: bool = False

    @classmethod
    def of(cls, text: str) -> Memory:
        """Return a server with the streams that the text describes, separated by semicolons."""
        streams = map(Stream.of, text.split(";"))
        return cls({stream.name: stream for stream in streams})

    def between(self, stream: str, after: StreamId, upto: StreamId) -> list[int]:
        """Return the entries of a stream in (after, upto]."""
        return self.streams[stream].between(after, upto)

    def counts(self, asked: Sequence[tuple[str, StreamId, StreamId]]) -> list[int]:
        """Return the number of entries in each range; this and the following methods are those of `Entries`."""
        self.asked += ["counts"] if asked else []
        return [len(self.between(*span)) for span in asked]

    def nths(self, asked: Sequence[tuple[str, StreamId, int, StreamId]]) -> list[tuple[StreamId, int]]:
        self.asked += ["nths"] if asked else []
        found = [(self.between(stream, after, upto), count, upto) for stream, after, count, upto in asked]
        return [(at(ids[count - 1]), count) if len(ids) >= count else (upto, len(ids)) for ids, count, upto in found]

    def splits(self, wholes: Sequence[tuple[Range, int]], most: int | None) -> list[list[Cut]]:
        self.asked.append("splits")
        return [self._split(whole, parts, most) for whole, parts in wholes]

    def _split(self, whole: Range, parts: int, most: int | None) -> list[Cut]:
        ids = self.between(whole.stream, whole.after, whole.upto)
        parts = max(parts, -(-len(ids) // most) if most else 1)
        ends = sorted({len(ids) * part // parts for part in range(1, parts + 1)} - {0})
        cuts: list[Cut] = [(at(ids[end - 1]), end - before) for before, end in zip([0, *ends[:-1]], ends, strict=True)]
        return [*cuts[:-1], (whole.upto, cuts[-1][1])] if cuts else [(whole.upto, 0)]

    @property
    def begin(self) -> Offsets:
        """The offset of the last batch: the position in each stream."""
        known = {name: stream for name, stream in self.streams.items() if "new" not in stream.flags}
        added = {name: stream.added_before for name, stream in known.items()}
        return Offsets(
            {name: at(stream.after) for name, stream in known.items()},
            added={name: count for name, count in added.items() if count is not None},
        )

    def facts(self, **more: Any) -> Facts:
        """Return the facts of a query that reads these streams."""
        targets = {
            name: (at(stream.target), len(stream.between(ZERO, at(stream.target))) + stream.removed)
            for name, stream in self.streams.items()
            if stream.target is not None
        }
        return replace(
            Facts(
                frozenset(self.streams),
                Source("range"),
                targets=targets or None,
                rotation=1,
                cores=8,
            ),
            **more,
        )


def _span(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1) if first else range(0)
