"""The node map: how Redis would have stored the stream, as far as a client can see it.

Approximate trimming, its LIMIT, and the node counts of XINFO speak of *nodes* (packed lists of up to
``stream-node-max-entries`` entries and about ``stream-node-max-bytes`` bytes). Our segments are cut differently, so the
nodes are derived from the frames: lazily, from the oldest entry on, each entry once, when somebody asks or before a
deletion would change what they are derived from. A stream that nobody trims approximately never pays for it.

The rules that must hold: an entry's node depends only on the entries before it and on what was deleted before it was
added; so :meth:`NodeMap.complete` runs before any single entry is deleted, before a segment's bytes go, and before the
limits change.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from engine.core.ids import U64_MAX
from engine.core.segment import fields_of

if TYPE_CHECKING:
    from engine.core.stream import Stream

_HARD_MAX_BYTES = 1 << 30
_PACKED_OVERHEAD = 7
_INT64 = 1 << 63


@dataclass(slots=True)
class NodeLimits:
    """The two directives, shared by all streams of a core; 0 means none (for bytes: 1 GiB)."""

    max_bytes: int = 4096
    max_entries: int = 100


def _with_back_length(size: int) -> int:
    if size <= 127:
        return size + 1
    if size < 16383:
        return size + 2
    if size < 2097151:
        return size + 3
    return size + (4 if size < 268435455 else 5)


def packed_int(value: int) -> int:
    """Bytes that a packed list spends on an integer."""
    if 0 <= value <= 127:
        return 2
    if -4096 <= value <= 4095:
        return 3
    if -32768 <= value <= 32767:
        return 4
    if -8388608 <= value <= 8388607:
        return 5
    if -2147483648 <= value <= 2147483647:
        return 6
    return 10


def packed_word(word: bytes) -> int:
    """Bytes that a packed list spends on a string; one that is a canonical 64-bit integer is kept as that."""
    size = len(word)
    if size <= 20:
        digits = word[1:] if word[:1] == b"-" else word
        if digits.isdigit() and (digits[:1] != b"0" or word == b"0"):
            value = int(word)
            if -_INT64 <= value < _INT64:
                return packed_int(value)
    if size < 64:
        return size + 2
    return _with_back_length(size + (2 if size < 4096 else 5))


def _signed(difference: int) -> int:
    difference &= U64_MAX
    return difference - (1 << 64) if difference >= _INT64 else difference


class _OpenNode:
    """The newest node, as far as it decides where the next entry goes."""

    __slots__ = ("bytes", "deleted", "field_names", "key", "total")

    def __init__(self, key: int, field_names: Sequence[bytes]) -> None:
        self.key = key
        self.field_names = field_names
        #: Entries, the deleted ones included.
        self.total = 0
        self.deleted = 0
        #: Packed bytes without the two counters in front.
        self.bytes = _PACKED_OVERHEAD + packed_int(len(field_names)) + sum(map(packed_word, field_names)) + 2

    def size(self) -> int:
        return self.bytes + packed_int(self.total - self.deleted) + packed_int(self.deleted)

    def add(self, entry_id: int, words: list[bytes]) -> None:
        names = words[::2]
        cost = 2 + packed_int(_signed((entry_id >> 64) - (self.key >> 64)))
        cost += packed_int(_signed((entry_id & U64_MAX) - (self.key & U64_MAX)))
        if names == self.field_names:
            cost += sum(map(packed_word, words[1::2])) + packed_int(3 + len(names))
        else:
            cost += packed_int(len(names)) + sum(map(packed_word, words)) + packed_int(4 + len(words))
        self.bytes += cost
        self.total += 1


class NodeMap:
    """The nodes of one stream, oldest first: the ID each is keyed by, its last entry's ID, how many are live."""

    __slots__ = ("_firsts", "_head_moved", "_lasts", "_live", "_open", "_upto", "limits")

    def __init__(self, limits: NodeLimits) -> None:
        self.limits = limits
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._live: list[int] = []
        self._open: _OpenNode | None = None
        #: Entries up to this ID are in the map.
        self._upto = 0
        #: The stream was trimmed since the first nodes were last looked at.
        self._head_moved = False

    # -- asking -----------------------------------------------------------------------------------------------------

    def head(self, stream: Stream) -> tuple[int, int] | None:
        """(last ID, live entries) of the oldest node; None in an empty stream."""
        self._settle(stream)
        self.sync(stream, nodes=2)
        return (self._lasts[0], self._live[0]) if self._firsts else None

    def extents(self, stream: Stream) -> list[tuple[int, int, int]]:
        """(key, last ID, live entries) of every node, as they are now."""
        self.complete(stream)
        return list(zip(self._firsts, self._lasts, self._live, strict=True))

    def keys(self, stream: Stream) -> list[int]:
        """The IDs that the nodes are keyed by."""
        self.complete(stream)
        return self._firsts

    # -- following the stream ---------------------------------------------------------------------------------------

    def complete(self, stream: Stream) -> None:
        """Bring the map up to date with the whole stream."""
        self._settle(stream)
        self.sync(stream)

    def sync(self, stream: Stream, upto: int | None = None, nodes: int = 0) -> None:
        """Derive the nodes of entries that are not in the map yet: all, or up to an ID, or until there are so many
        nodes.
        """
        end = stream.last_id if upto is None else upto
        if self._upto >= end or (nodes and len(self._firsts) >= nodes):
            return
        first_live = stream.first_id
        for segment in stream.segments_from(self._upto + 1):
            for index in range(segment.position(self._upto + 1), len(segment)):
                entry_id = segment.id_at(index)
                if entry_id > end:
                    return
                self._add(entry_id, fields_of(segment.frame_at(index)), entry_id >= first_live)
                if nodes and len(self._firsts) >= nodes:
                    return

    def _add(self, entry_id: int, words: list[bytes], live: bool) -> None:
        node = self._open
        limits = self.limits
        if (
            node is None
            or node.size() + sum(map(len, words)) >= (limits.max_bytes or _HARD_MAX_BYTES)
            or 0 < limits.max_entries <= node.total
        ):
            node = self._open = _OpenNode(entry_id, words[::2])
            self._firsts.append(entry_id)
            self._lasts.append(entry_id)
            self._live.append(0)
        node.add(entry_id, words)
        self._lasts[-1] = entry_id
        self._live[-1] += live
        self._upto = entry_id

    def entry_removed(self, entry_id: int) -> None:
        """One live entry, which is in the map, is deleted."""
        number = bisect_right(self._firsts, entry_id) - 1
        self._live[number] -= 1
        is_open = number == len(self._firsts) - 1
        if is_open and self._open is not None:
            self._open.deleted += 1
        if not self._live[number]:
            del self._firsts[number], self._lasts[number], self._live[number]
            if is_open:
                self._open = None

    def head_trimmed(self, stream: Stream) -> None:
        """Entries went from the head of the stream."""
        if stream.length:
            self._head_moved = True
            return
        self._head_moved = False
        self._firsts.clear()
        self._lasts.clear()
        self._live.clear()
        self._open = None
        self._upto = stream.last_id

    def _settle(self, stream: Stream) -> None:
        if not self._head_moved:
            return
        self._head_moved = False
        first_live = stream.first_id
        # With the first live entry in the map, what lies before its node is gone, and its node is known.
        self.sync(stream, first_live)
        gone = bisect_left(self._lasts, first_live)
        del self._firsts[:gone], self._lasts[:gone], self._live[:gone]
        live = stream.count(self._firsts[0], self._lasts[0])
        if len(self._firsts) == 1 and self._open is not None:
            self._open.deleted += self._live[0] - live
        self._live[0] = live

    def copy(self) -> NodeMap:
        """An independent map. The open node is shared until one side adds, so it is copied too."""
        other = NodeMap(self.limits)
        other._firsts, other._lasts, other._live = self._firsts[:], self._lasts[:], self._live[:]
        other._upto, other._head_moved = self._upto, self._head_moved
        if self._open is not None:
            node = other._open = _OpenNode(self._open.key, self._open.field_names)
            node.total, node.deleted, node.bytes = self._open.total, self._open.deleted, self._open.bytes
        return other


def radix_nodes(keys: Sequence[int]) -> int:
    """How many nodes a compressed radix tree needs for these IDs (ascending) as 16-byte big-endian keys."""
    if not keys:
        return 1
    words = [key.to_bytes(16, "big") for key in keys]
    if len(words) == 1:
        return 2
    # Neighbours in order share the longest prefixes, so the common prefix lengths describe the whole tree: each maximal
    # group with a common prefix is one branching node, with a compressed node before it where the prefix is longer.
    shared = [_common(a, b) for a, b in pairwise(words)]
    total = 0
    # Leaves: behind its branch every key has its rest (one compressed node, where there is one) and an end node.
    for at in range(len(words)):
        depth = max(shared[at - 1] if at else 0, shared[at] if at < len(shared) else 0)
        total += 1 + (depth + 1 < 16)
    # Branches: a stack of the open branch depths along the sorted keys.
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
