"""The node map: the nodes in which Redis would have stored the entries, as far as clients can see them.

Approximate trimming, its LIMIT, and the node counts of XINFO are defined by *nodes*: listpacks of up to
``stream-node-max-entries`` entries and about ``stream-node-max-bytes`` bytes. Segments have other boundaries, so nodes
are derived from the frames. Each entry is processed once, the oldest first. Nodes are derived only for a command that
needs them, and before an entry of an open segment is deleted.

Each segment has its own map, so a node ends where its segment ends. If possible, a segment ends at a multiple of 100
entries, the default of ``stream-node-max-entries``, because a node usually ends there anyway.

Invariant: an entry's node depends only on the entries before it, on the deletions before it was added, and on the
limits at that time. So ``SegmentNodes.sync`` must run before an entry of an open segment is deleted, and
``SegmentNodes.keep_limits`` before the limits change.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.core.protocol.ids import U64_MAX
from engine.core.streams.entry_columns import batch_of
from engine.core.streams.listpack import Ints, int_sizes, listpack_int, listpack_word, word_sizes
from streamwire.frames import split_fields

#: Maximum size of a node in bytes if ``max_bytes`` is 0.
_HARD_MAX_BYTES = 1 << 30
_LISTPACK_OVERHEAD = 7
#: Maximum size of a listpack's two leading counters in bytes.
_COUNTERS = 20
_INT64 = 1 << 63
#: Fewer entries than this are measured one by one.
_MANY = 32
#: Maximum number of entries whose sizes are computed together.
_AT_ONCE = 2000
#: Maximum number of segments of a stream whose nodes are counted exactly.
COUNTED_SEGMENTS = 4
#: For a stream with more segments, the number of nodes is estimated from a sample of this many nodes.
_SAMPLE = 20


@dataclass(slots=True)
class NodeLimits:
    """The stream-node directives. A ``max_entries`` of 0 means no limit, and a ``max_bytes`` of 0 means 1 GiB."""

    max_bytes: int = 4096
    max_entries: int = 100


_IdColumn = npt.NDArray[np.uint64]


class Entries(Protocol):
    """The methods of a segment that the node map uses. Indices count from the oldest entry, including deleted ones."""

    #: The index of the first live entry.
    start: int

    @property
    def nodes(self) -> SegmentNodes:
        """The nodes derived so far."""

    @property
    def live(self) -> int:
        """The number of live entries."""

    def __len__(self) -> int: ...

    def id_at(self, index: int) -> int:
        """Return the ID of an entry."""

    def frame_at(self, index: int) -> bytes:
        """Return the frame of an entry."""

    def frames(self, low: int, high: int) -> list[bytes]:
        """Return the frames of the entries [low, high)."""

    def pairs(self, low: int, high: int) -> Iterator[tuple[int, bytes]]:
        """Yield (ID, frame) of the entries [low, high)."""

    def id_columns(self, low: int, high: int) -> tuple[array[int], array[int]]:
        """Return the IDs of the entries [low, high): milliseconds and sequence numbers."""

    def is_dead(self, index: int) -> bool:
        """Return whether an entry has been deleted."""

    def count(self, low: int, high: int) -> int:
        """Return the number of live entries in [low, high)."""


def _signed(difference: int) -> int:
    difference &= U64_MAX
    return difference - (1 << 64) if difference >= _INT64 else difference


class _OpenNode:
    """The newest node: the state that decides whether the next entry still fits."""

    __slots__ = ("bytes", "deleted", "field_names", "key", "total")

    def __init__(self, key: int, field_names: Sequence[bytes]) -> None:
        #: ID of the first entry.
        self.key = key
        self.field_names = field_names
        #: Number of entries, including deleted ones.
        self.total = 0
        self.deleted = 0
        #: Bytes of the node's listpack without the two leading counters.
        self.bytes = _LISTPACK_OVERHEAD + listpack_int(len(field_names)) + sum(map(listpack_word, field_names)) + 2

    def is_full(self, size: int, limits: NodeLimits) -> bool:
        """Return whether the node has no room for an entry whose names and values have ``size`` bytes in total."""
        if 0 < limits.max_entries <= self.total:
            return True
        room = (limits.max_bytes or _HARD_MAX_BYTES) - self.bytes - size
        return room <= _COUNTERS and room <= listpack_int(self.total - self.deleted) + listpack_int(self.deleted)

    def add_many(self, costs: _Costs, ms: _IdColumn, seq: _IdColumn, at: int, limits: NodeLimits) -> int:
        """Add the entries with these IDs as far as they fit; return how many were added.

        ``at``: the index of the first of these entries in ``costs``.
        """
        count = len(ms)
        if limits.max_entries:
            count = min(count, limits.max_entries - self.total)
        if count <= 0:
            return 0
        differences = np.array((ms[:count] - np.uint64(self.key >> 64), seq[:count] - np.uint64(self.key & U64_MAX)))
        sizes = costs.of_same if costs.field_names == self.field_names else costs.of_others
        ends = np.cumsum(sizes[at : at + count] + int_sizes(differences.view(np.int64)).sum(axis=0)) + self.bytes
        begins = np.concatenate(([self.bytes], ends[:-1])) + listpack_int(self.deleted)
        # The leading counter grows with the number of entries.
        present = self.total - self.deleted
        few = present + count <= 128
        begins += listpack_int(0) if few else int_sizes(np.arange(present, present + count))
        full = begins + costs.of_words[at : at + count] >= (limits.max_bytes or _HARD_MAX_BYTES)
        if not self.total:
            full[:1] = False
        if full.any():
            count = int(full.argmax())
        if count:
            self.bytes = int(ends[count - 1])
            self.total += count
        return count

    def add(self, entry_id: int, words: list[bytes]) -> None:
        names, cost = words[::2], 2
        for later in ((entry_id >> 64) - (self.key >> 64), (entry_id & U64_MAX) - (self.key & U64_MAX)):
            cost += 2 if 0 <= later <= 127 else listpack_int(_signed(later))
        if names == self.field_names:
            cost += sum(map(listpack_word, words[1::2])) + listpack_int(3 + len(names))
        else:
            cost += listpack_int(len(names)) + sum(map(listpack_word, words)) + listpack_int(4 + len(words))
        self.bytes += cost
        self.total += 1


@dataclass(frozen=True, slots=True)
class _Costs:
    """Bytes that entries with the same field names add to a node, not counting their IDs."""

    field_names: list[bytes]
    #: Cost of each entry in a node with these field names.
    of_same: Ints
    #: Cost of each entry in a node whose field names differ.
    of_others: Ints
    #: Total size of each entry's field names and values.
    of_words: Ints

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self.of_words)

    @classmethod
    def of(cls, frames: list[bytes]) -> _Costs | None:
        """Return the costs of entries with these frames; None if the frames are not uniform."""
        data = b"".join(frames)
        batch = batch_of(data, np.cumsum([0, *map(len, frames)]))
        if batch is None:
            return None
        names, values = batch.names, batch.known
        none = np.zeros(len(frames), np.int64)
        of_values = sum((word_sizes(column.data, column.starts, column.lengths) for column in values), none)
        of_words = sum((column.lengths for column in values), none) + sum(map(len, names))
        own_names = sum(map(listpack_word, names)) + listpack_int(len(names))
        return cls(
            list(names),
            2 + of_values + listpack_int(3 + len(names)),
            2 + of_values + own_names + listpack_int(4 + 2 * len(names)),
            of_words,
        )


class SegmentNodes:
    """The nodes of one segment that have been derived so far: the index of each node's first entry."""

    __slots__ = ("_mixed_upto", "_open", "_void", "former", "oldest", "starts", "upto")

    def __init__(self) -> None:
        self.starts = array("I")
        #: Ranges [i, j) of deleted entries whose node was removed while it was the newest. The preceding node then
        #: reopened, but does not include these entries.
        self._void: list[tuple[int, int]] = []
        #: Number of entries in the map.
        self.upto = 0
        #: (index, limits), ascending: the limits in force when the entries before the index were added. Pairs
        #: whose entries are all in the map are dropped. The current limits apply from the last index on.
        self.former: tuple[tuple[int, NodeLimits], ...] = ()
        self._open: _OpenNode | None = None
        #: The entries from ``upto`` up to this index are not uniform, so they are measured one by one.
        self._mixed_upto = 0
        #: Cached result of ``oldest_of`` if the node is complete: the segment's first live index and number of dead
        #: entries, and the node's last ID and number of live entries. Each XADD with MAXLEN ~ needs it.
        self.oldest: tuple[int, int, int, int] | None = None

    def sync(self, segment: Entries, limits: NodeLimits, nodes: int = 0) -> None:
        """Derive the nodes of entries that are not in the map yet. ``limits`` are the current limits.

        If ``nodes`` is not 0, stop when the map has at least this many nodes.
        """
        while self.upto < len(segment) and not (nodes and len(self.starts) >= nodes):
            while self.former and self.former[0][0] <= self.upto:
                self.former = self.former[1:]
            then, end = limits, min(len(segment), self.upto + _AT_ONCE)
            if self.former:
                behind, then = self.former[0]
                end = min(end, behind)
            if self.upto < self._mixed_upto:
                end = min(end, self._mixed_upto)
            elif end - self.upto >= _MANY:
                costs = _Costs.of(segment.frames(self.upto, end))
                if costs is not None:
                    self._add_many(segment, costs, then)
                    continue
                self._mixed_upto = end
            for entry_id, entry in segment.pairs(self.upto, end):
                words = split_fields(entry)
                node = self._open
                if node is None or node.is_full(sum(map(len, words)), then):
                    node = self._open_node(entry_id, words[::2])
                node.add(entry_id, words)
                self.upto += 1
                if nodes and len(self.starts) >= nodes:
                    return

    def _open_node(self, entry_id: int, field_names: Sequence[bytes]) -> _OpenNode:
        node = self._open = _OpenNode(entry_id, field_names)
        self.starts.append(self.upto)
        return node

    def _add_many(self, segment: Entries, costs: _Costs, limits: NodeLimits) -> None:
        """Derive the nodes of the next entries from the costs of these entries."""
        ms, seq = (
            np.frombuffer(column, np.uint64) for column in segment.id_columns(self.upto, self.upto + costs.count)
        )
        at = 0
        while at < costs.count:
            node = self._open
            if node is None:
                node = self._open_node(segment.id_at(self.upto), costs.field_names)
            at += (added := node.add_many(costs, ms[at:], seq[at:], at, limits))
            self.upto += added
            if at < costs.count:
                self._open = None

    def keep_limits(self, count: int, limits: NodeLimits) -> None:
        """Record that ``limits`` applied to the segment's first ``count`` entries. Call this before limits change."""
        if max(self.upto, self.former[-1][0] if self.former else 0) < count:
            self.former = (*self.former, (count, replace(limits)))

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the entries [i, j) of a node. The last node ends where the map ends."""
        first = self.starts[number]
        end = self.starts[number + 1] if number + 1 < len(self.starts) else self.upto
        for begin, behind in reversed(self._void):
            if behind == end and begin > first:
                end = begin
        return first, end

    def entry_removed(self, segment: Entries, index: int) -> None:
        """Update the map after the deletion of a live entry that is in the map."""
        if self._open is None or index < self.starts[-1]:
            return
        self._open.deleted += 1
        if not segment.count(self.starts[-1], self.upto):
            # The newest node is empty and is removed; the preceding node reopens.
            self._void.append((self.starts.pop(), self.upto))
            self._open = self._rebuilt(segment) if self.starts else None

    def _rebuilt(self, segment: Entries) -> _OpenNode:
        first, end = self.starts[-1], self.upto
        words = split_fields(segment.frame_at(first))
        node = _OpenNode(segment.id_at(first), words[::2])
        for index, (entry_id, entry) in enumerate(segment.pairs(first, end), first):
            if not any(begin <= index < behind for begin, behind in self._void):
                node.add(entry_id, split_fields(entry))
                node.deleted += segment.is_dead(index)
        return node

    def compacted(self, left: Sequence[int]) -> None:
        """Update the map after a rewrite that kept ``left[i]`` of the entries before index i."""
        self.oldest, self._mixed_upto = None, 0
        starts = sorted({left[start] for start in self.starts})
        self.upto = left[self.upto]
        self.starts = array("I", [start for start in starts if start < self.upto])
        self.former = tuple((left[index], limits) for index, limits in self.former)
        void = [(left[begin], left[behind]) for begin, behind in self._void]
        self._void = [(begin, behind) for begin, behind in void if begin < behind]

    def copy(self) -> SegmentNodes:
        """Return an independent copy."""
        other = SegmentNodes()
        other.starts, other.upto, other._void = self.starts[:], self.upto, self._void[:]
        other.former = self.former
        if self._open is not None:
            node = other._open = _OpenNode(self._open.key, self._open.field_names)
            node.total, node.deleted, node.bytes = self._open.total, self._open.deleted, self._open.bytes
        return other


def synced(segment: Entries, limits: NodeLimits) -> SegmentNodes:
    """Return the segment's nodes, fully derived."""
    segment.nodes.sync(segment, limits)
    return segment.nodes


def node_of(segment: Entries, index: int, limits: NodeLimits) -> tuple[int, int, int]:
    """Return (first ID, last ID, live entries) of the node that contains the segment's live entry at ``index``."""
    nodes = segment.nodes
    number = bisect_right(nodes.starts, index) - 1
    while number < 0 or (number + 1 == len(nodes.starts) and nodes.upto < len(segment)):
        nodes.sync(segment, limits, len(nodes.starts) + 1)
        number = bisect_right(nodes.starts, index) - 1
    first, end = nodes.bounds(number)
    return segment.id_at(first), segment.id_at(end - 1), segment.count(first, end)


def oldest_of(segment: Entries, start: int, dead: int, limits: NodeLimits) -> tuple[int, int]:
    """Return (last ID, live entries) of the segment's oldest live node.

    ``start`` is the segment's first live index, and ``dead`` the number of deleted entries from ``start`` on.
    """
    nodes = segment.nodes
    known = nodes.oldest
    if known is None or known[0] != start or known[1] != dead:
        _, last_id, live = node_of(segment, start, limits)
        known = start, dead, last_id, live
        if segment.id_at(len(segment) - 1) != last_id:
            # The node is complete, so later entries do not change it.
            nodes.oldest = known
    return known[2], known[3]


def extents(segments: Sequence[Entries], limits: NodeLimits) -> list[tuple[int, int, int]]:
    """Return (first ID, last ID, live entries) of every node with live entries, oldest first."""
    found = []
    for segment in segments:
        nodes = synced(segment, limits)
        for number in range(len(nodes.starts)):
            first, end = nodes.bounds(number)
            live = segment.count(first, end)
            if live:
                found.append((segment.id_at(first), segment.id_at(end - 1), live))
    return found


def count_nodes(segments: Sequence[Entries], number: int, limits: NodeLimits, length: int) -> tuple[int, int]:
    """Return the number of nodes and the number of radix tree nodes that hold them.

    ``length`` is the stream's number of live entries, and ``number`` its number of segments. Up to ``COUNTED_SEGMENTS``
    are all in ``segments``, and the counts are exact. Of more, ``segments`` contains one from the middle, because
    entries may have become longer. The counts are extrapolated from its first nodes, so the cost does not depend on the
    length.
    """
    if number <= COUNTED_SEGMENTS:
        keys = [key for key, _, _ in extents(segments, limits)]
        return len(keys), radix_nodes(keys)
    (sample,) = segments
    nodes = sample.nodes
    nodes.sync(sample, limits, _SAMPLE + 1)
    # The last node is left out: it may be incomplete.
    behind = len(nodes.starts) - 1 if nodes.upto < len(sample) else len(nodes.starts)
    bounds = [nodes.bounds(number) for number in range(behind)]
    found = sum(1 for first, end in bounds if sample.count(first, end))
    live = sum(sample.count(first, end) for first, end in bounds)
    total = max(round(length * found / max(live, 1)), number)
    return total, 2 * total + total // 16


def radix_nodes(keys: Sequence[int]) -> int:
    """Return the number of nodes of a compressed radix tree. Its keys are ascending IDs as 16 bytes, big-endian."""
    if not keys:
        return 1
    words = [key.to_bytes(16, "big") for key in keys]
    if len(words) == 1:
        return 2
    # Adjacent keys share the longest prefixes, so the common prefix lengths describe the whole tree. Each maximal group
    # with a common prefix is one branching node. A compressed node precedes it if bytes remain between the node and its
    # parent.
    shared = [_common(a, b) for a, b in pairwise(words)]
    total = 0
    # Leaves: after its branch, each key has a compressed node for its remaining bytes, if any, and an end node.
    for at in range(len(words)):
        depth = max(shared[at - 1] if at else 0, shared[at] if at < len(shared) else 0)
        total += 1 + (depth + 1 < 16)
    # Branches: a stack of open branch depths along the sorted keys.
    stack: list[int] = []
    branches: list[tuple[int, int]] = []
    for depth in shared:
        last = None
        while stack and stack[-1] > depth:
            last = stack.pop()
            branches.append((last, max(depth, stack[-1] if stack else -1)))
        if not stack or stack[-1] < depth:
            stack.append(depth)
    while stack:
        depth = stack.pop()
        branches.append((depth, stack[-1] if stack else -1))
    for depth, parent in branches:
        total += 1 + (depth - parent - 1 > 0)
    return total


def _common(a: bytes, b: bytes) -> int:
    length = 0
    while a[length] == b[length]:
        length += 1
    return length
