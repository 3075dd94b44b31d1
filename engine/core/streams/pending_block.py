"""A block of the pending entries list: neighbouring records in ID order.

An *even* block stores one owner, delivery time and delivery count for all its records. A block becomes uneven when a
record with other values is set or added; it then stores three arrays.

Copies are copy-on-write: both blocks share their arrays until one of them changes.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt

from engine.core.protocol.ids import U64_MAX, position

#: ``matches`` returns 0 instead of comparing this many records or fewer.
_SHORT_MATCH = 4
#: Minimum number of records whose owners are counted with numpy.
_MANY = 100
#: Placeholder for the times and counts of an even block. Never modified.
_NONE = array("q")


class Block:
    """Records in ID order, even or uneven (see the module's docstring).

    ``owner``, ``time`` (milliseconds) and ``count`` apply to all records if ``owners`` is None.
    """

    __slots__ = ("count", "counts", "is_shared", "ms", "oldest", "owner", "owners", "seq", "time", "times")

    def __init__(self, ms: array[int], seq: array[int], owner: int, time: int, count: int) -> None:
        self.ms = ms
        self.seq = seq
        self.owner = owner
        self.time = time
        self.count = count
        self.owners: array[int] | None = None
        self.times = self.counts = _NONE
        #: A lower bound of the delivery times; ``tighten`` makes it exact.
        self.oldest = time
        #: Whether another block may share the arrays. If so, they are copied before a change.
        self.is_shared = False

    def __len__(self) -> int:
        return len(self.ms)

    def id_at(self, index: int) -> int:
        """Return the ID of a record."""
        return self.ms[index] << 64 | self.seq[index]

    def ids(self, low: int, high: int) -> list[int]:
        """Return the IDs of the records [low, high)."""
        return [ms << 64 | seq for ms, seq in zip(self.ms[low:high], self.seq[low:high], strict=True)]

    def position(self, entry_id: int) -> int:
        """Return the index of the first record whose ID is not below ``entry_id``."""
        return position(self.ms, self.seq, entry_id)

    def owner_at(self, index: int) -> int:
        """Return the owner of a record."""
        return self.owner if self.owners is None else self.owners[index]

    def time_at(self, index: int) -> int:
        """Return a record's last delivery time, in milliseconds since the epoch."""
        return self.time if self.owners is None else self.times[index]

    def count_at(self, index: int) -> int:
        """Return a record's delivery count."""
        return self.count if self.owners is None else self.counts[index]

    def agrees(self, owner: int, time: int, count: int) -> bool:
        """Return whether the block is even and has these values."""
        return self.owners is None and self.owner == owner and self.time == time and self.count == count

    def matches(self, index: int, ms: array[int], seq: array[int], at: int) -> int:
        """Count records, starting at ``index``, whose IDs equal those in the columns starting at ``at``.

        More records than this number may match: the method compares as many records as both have, then half as many,
        and so on, and returns the size of the first comparison that succeeds.
        """
        count = min(len(self.ms) - index, len(ms) - at)
        while count > _SHORT_MATCH:
            end = index + count
            if self.ms[index:end] == ms[at : at + count] and self.seq[index:end] == seq[at : at + count]:
                return count
            count //= 2
        return 0

    def assign(self, low: int, high: int, owner: int, time: int, counts: array[int]) -> None:
        """Set the owner, time and counts of the records [low, high)."""
        if low == 0 and high == len(self.ms) and counts.count(counts[0]) == len(counts):
            self.owners, self.times, self.counts = None, _NONE, _NONE
            self.owner, self.time, self.count, self.oldest = owner, time, counts[0], time
            return
        if self.is_shared:
            self._unshare()
        self.make_uneven()
        assert self.owners is not None
        size = high - low
        self.owners[low:high] = array("I", [owner]) * size
        self.times[low:high] = array("q", [time]) * size
        self.counts[low:high] = counts
        self.oldest = min(self.oldest, time)

    def make_uneven(self) -> None:
        """Store the values of each record separately."""
        if self.owners is None:
            size = len(self.ms)
            self.owners = array("I", [self.owner]) * size
            self.times = array("q", [self.time]) * size
            self.counts = array("q", [self.count]) * size

    def put(self, index: int, owner: int, time: int, count: int) -> None:
        """Set one record's values."""
        if self.agrees(owner, time, count):
            return
        if len(self.ms) == 1:
            self.owners, self.times, self.counts = None, _NONE, _NONE
            self.owner, self.time, self.count, self.oldest = owner, time, count, time
            return
        if self.is_shared:
            self._unshare()
        self.make_uneven()
        assert self.owners is not None
        self.owners[index], self.times[index], self.counts[index] = owner, time, count
        self.oldest = min(self.oldest, time)

    def insert(self, index: int, entry_id: int, owner: int, time: int, count: int) -> None:
        """Insert a record at ``index``."""
        if self.is_shared:
            self._unshare()
        if not self.agrees(owner, time, count):
            self.make_uneven()
        self.ms.insert(index, entry_id >> 64)
        self.seq.insert(index, entry_id & U64_MAX)
        if self.owners is not None:
            self.owners.insert(index, owner)
            self.times.insert(index, time)
            self.counts.insert(index, count)
        self.oldest = min(self.oldest, time)

    def extend(self, ms: array[int], seq: array[int], owner: int, time: int, count: int) -> None:
        """Append records that all have the same values."""
        if self.is_shared:
            self._unshare()
        if self.owners is None and not self.agrees(owner, time, count):
            self.make_uneven()
        self.ms += ms
        self.seq += seq
        if self.owners is not None:
            size = len(ms)
            self.owners += array("I", (owner,)) * size
            self.times += array("q", (time,)) * size
            self.counts += array("q", (count,)) * size
        self.oldest = min(self.oldest, time)

    def matching(self, owner: int | None, before: int | None) -> Sequence[int]:
        """Return the indices of the records of ``owner`` (None: of all owners), filtered by time.

        ``before``: the latest delivery time (None: any time).
        """
        matches = self._matches(owner, before)
        if isinstance(matches, bool):
            return range(len(self.ms) if matches else 0)
        found: list[int] = np.flatnonzero(matches).tolist()
        return found

    def count_matching(self, owner: int | None, before: int | None) -> int:
        """Return the number of records that ``matching`` finds."""
        matches = self._matches(owner, before)
        if isinstance(matches, bool):
            return len(self.ms) if matches else 0
        return int(np.count_nonzero(matches))

    def _matches(self, owner: int | None, before: int | None) -> bool | npt.NDArray[np.bool_]:
        """Return a mask of the matching records, or a bool if all records or none match."""
        if self.owners is None:
            return (owner is None or self.owner == owner) and (before is None or self.time <= before)
        if owner is None:
            return before is None or self._delivered(before)
        owned: npt.NDArray[np.bool_] = np.frombuffer(self.owners, np.uint32) == owner
        return owned if before is None else owned & self._delivered(before)

    def _delivered(self, before: int) -> npt.NDArray[np.bool_]:
        delivered: npt.NDArray[np.bool_] = np.frombuffer(self.times, np.int64) <= before
        return delivered

    def tighten(self) -> None:
        """Make ``oldest`` exact."""
        self.oldest = min(self.times) if self.owners is not None else self.time

    def earliest_time(self, after: int) -> int | None:
        """Return the earliest delivery time later than ``after``; None if there is no such record."""
        times = self.times if self.owners is not None else (self.time,)
        return min((time for time in times if time > after), default=None)

    def remove(self, low: int, high: int) -> None:
        """Remove the records [low, high)."""
        if self.is_shared:
            self._unshare()
        del self.ms[low:high], self.seq[low:high]
        if self.owners is not None:
            del self.owners[low:high], self.times[low:high], self.counts[low:high]

    def remove_ids(self, pairs: set[tuple[int, int]]) -> dict[int, int]:
        """Remove the records of these (milliseconds, sequence) pairs; return the number removed per owner."""
        stays = [pair not in pairs for pair in zip(self.ms, self.seq, strict=True)]
        removed = len(stays) - sum(stays)
        owners = {self.owner: removed} if removed else {}
        if self.owners is not None:
            owners = {}
            for owner, keep in zip(self.owners, stays, strict=True):
                if not keep:
                    owners[owner] = owners.get(owner, 0) + 1
            self.owners = array("I", compress(self.owners, stays))
            self.times, self.counts = array("q", compress(self.times, stays)), array("q", compress(self.counts, stays))
        self.ms, self.seq = array("Q", compress(self.ms, stays)), array("Q", compress(self.seq, stays))
        self.is_shared = False
        return owners

    def remove_owner(self, owner: int) -> None:
        """Remove all records of ``owner``."""
        if self.owners is None:
            if self.owner == owner:
                self.ms, self.seq, self.is_shared = array("Q"), array("Q"), False
            return
        stays = np.frombuffer(self.owners, np.uint32) != owner
        if np.count_nonzero(stays) < len(self.ms):
            self.ms, self.seq = _filtered(self.ms, stays), _filtered(self.seq, stays)
            self.owners, self.times, self.counts = (
                _filtered(column, stays) for column in (self.owners, self.times, self.counts)
            )
            self.is_shared = False

    def shared_copy(self) -> Block:
        """Return a copy-on-write copy."""
        other = Block(self.ms, self.seq, self.owner, self.time, self.count)
        other.owners, other.times, other.counts = self.owners, self.times, self.counts
        other.oldest = self.oldest
        self.is_shared = other.is_shared = True
        return other

    def _unshare(self) -> None:
        """Replace shared arrays with copies, which can be changed."""
        self.ms, self.seq = self.ms[:], self.seq[:]
        if self.owners is not None:
            self.owners, self.times, self.counts = self.owners[:], self.times[:], self.counts[:]
        self.is_shared = False

    def tail(self, index: int, end: int | None = None) -> Block:
        """Return a copy of the records from ``index`` to ``end`` (default: all the rest) as a block."""
        part = slice(index, end)
        other = Block(self.ms[part], self.seq[part], self.owner, self.time, self.count)
        if self.owners is not None:
            other.owners, other.times, other.counts = self.owners[part], self.times[part], self.counts[part]
        other.oldest = self.oldest
        return other

    def tally(self, low: int, high: int) -> dict[int, int]:
        """Return the number of records in [low, high) by owner."""
        if self.owners is None:
            return {self.owner: high - low} if high > low else {}
        if high - low >= _MANY:
            # Not np.unique, whose first call imports a part of numpy, which takes 10 ms.
            owners = np.sort(np.frombuffer(self.owners, np.uint32)[low:high])
            begins = np.append(0, np.flatnonzero(owners[1:] != owners[:-1]) + 1)
            counts = np.diff(begins, append=len(owners))
            return dict(zip(owners[begins].tolist(), counts.tolist(), strict=True))
        return Counter(self.owners[low:high])


def _filtered(column: array[int], stays: npt.NDArray[np.bool_]) -> array[int]:
    """Return the elements of a column for which ``stays`` is true."""
    result = array(column.typecode)
    result.frombytes(np.frombuffer(column, column.typecode)[stays].tobytes())
    return result
