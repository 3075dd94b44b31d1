"""Decoding of a group's pending entries in Redis's RDB format, one block of records per step.

In this format, all records (ID, delivery time, delivery count) come first, in ID order. The IDs of each consumer's
records follow. The records are read into the blocks of the future pending list. When a consumer's IDs are read, the
records are looked up in the blocks to set their owner. IDs are compared as the 16 bytes in the file, which sort like
numbers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from engine.core.formats import restore
from engine.core.formats.rdb.primitives import BadFormatError, Reader, Steps, whole
from engine.core.streams.pending import BLOCK, PendingList
from engine.core.streams.pending_block import Block

#: Sizes in bytes of an ID, and of a record whose count takes one byte.
_ID, _RECORD = 16, 25
#: The owner of a record whose consumer has not been read yet.
_NOT_YET = 0xFFFF_FFFF
_Ids = npt.NDArray[np.bytes_]
_Numbers = npt.NDArray[np.int64]


class Pending:
    """The records of one group while they are being read."""

    def __init__(self) -> None:
        self._ids: list[_Ids] = []
        #: The first ID of each block, without trailing zeros, as numpy returns it.
        self._firsts: list[bytes] = []
        self._times: list[_Numbers] = []
        self._counts: list[_Numbers] = []
        self._owners: list[npt.NDArray[np.uint32]] = []

    def read(self, reader: Reader, count: int) -> Steps[None]:
        """Read ``count`` records."""
        last = b""
        for left in range(count, 0, -BLOCK):
            some = min(left, BLOCK)
            ids, times, counts = yield from whole(reader, lambda: _records(reader, some))  # noqa: B023
            if not _ascend(ids) or (self._ids and ids[0] <= last):
                raise BadFormatError
            last = ids[-1]
            self._ids.append(ids)
            self._firsts.append(bytes(ids[0]))
            self._times.append(times)
            self._counts.append(counts)
            self._owners.append(np.full(some, _NOT_YET, np.uint32))
            yield False

    def read_owned(self, reader: Reader, count: int, owner: int) -> Steps[None]:
        """Read the IDs of ``count`` records that belong to ``owner``."""
        for left in range(count, 0, -BLOCK):
            size = _ID * min(left, BLOCK)
            data = yield from whole(reader, lambda: reader.read(size))  # noqa: B023
            self.assign(data, owner)
            yield False

    def assign(self, data: bytes, owner: int) -> None:
        """Assign the records with the IDs in ``data`` to this owner."""
        ids = np.sort(np.frombuffer(data, f"S{_ID}"))
        if not _ascend(ids):
            raise BadFormatError
        at = 0
        while at < len(ids):
            number = bisect_right(self._firsts, bytes(ids[at])) - 1
            if number < 0:
                raise BadFormatError
            end = len(ids)
            if number + 1 < len(self._firsts):
                end = int(np.searchsorted(ids, self._ids[number + 1][0]))
            block, owners, wanted = self._ids[number], self._owners[number], ids[at:end]
            positions = np.searchsorted(block, wanted)
            if (
                positions[-1] >= len(block)
                or (block[positions] != wanted).any()
                or (owners[positions] != _NOT_YET).any()
            ):
                raise BadFormatError
            owners[positions] = owner
            at = end

    def finish(self) -> Steps[PendingList]:
        """Return the pending list after all owners have been read.

        Frees its own data block by block, because freeing everything at once would take long.
        """
        pending = PendingList()
        for column in (self._ids, self._times, self._counts, self._owners):
            column.reverse()
        while self._ids:
            ids, times, counts, owners = self._ids.pop(), self._times.pop(), self._counts.pop(), self._owners.pop()
            if (owners == _NOT_YET).any():
                raise BadFormatError
            restore.add_block(pending, _block(ids, times, counts, owners))
            yield False
        return pending


def _ascend(ids: _Ids) -> bool:
    return bool((ids[1:] > ids[:-1]).all())


def _records(reader: Reader, count: int) -> tuple[_Ids, _Numbers, _Numbers]:
    """Return the IDs, times and counts of the next records."""
    at = reader.at
    table = np.frombuffer(reader.read(_RECORD * count), np.uint8).reshape(count, _RECORD)
    if (table[:, -1] < 64).all():
        ids = np.ascontiguousarray(table[:, :_ID]).view(f"S{_ID}").ravel()
        times = np.ascontiguousarray(table[:, _ID:-1]).view("<i8").ravel().astype(np.int64)
        return ids, times, table[:, -1].astype(np.int64)
    # Not all counts take one byte, so the records are read one by one.
    reader.at = at
    words, times_of, counts_of = [], [], []
    for _ in range(count):
        words.append(reader.read(_ID))
        times_of.append(reader.unpack("<q"))
        counts_of.append(reader.length())
    # A count above the signed 64-bit range raises OverflowError, which is handled like any other error.
    ids = np.frombuffer(b"".join(words), f"S{_ID}")
    return ids, np.array(times_of, np.int64), np.array(counts_of, np.int64)


def _block(ids: _Ids, times: _Numbers, counts: _Numbers, owners: npt.NDArray[np.uint32]) -> Block:
    halves = ids.view(">u8").reshape(-1, 2)
    columns = [array("Q", halves[:, half].astype(np.uint64).tobytes()) for half in (0, 1)]
    block = Block(columns[0], columns[1], int(owners[0]), int(times[0]), int(counts[0]))
    if (owners != owners[0]).any() or (times != times[0]).any() or (counts != counts[0]).any():
        block.owners = array("I", owners.tobytes())
        block.times, block.counts = array("q", times.tobytes()), array("q", counts.tobytes())
        block.oldest = int(times.min())
    return block
