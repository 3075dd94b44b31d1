r"""Entries that are alike, as columns: the names of their fields once, and the values of each field back to back.

Entries are alike if they have the same field names in the same order. :func:`spans` finds in their frames what columns
are made of, or that they are not alike. It steps through all frames at once, as a reader of the protocol does through
one: a text that must be there, the digits of a length, as many bytes as these say, and so on to the very end of each
frame. It never searches for line ends, so no value can deceive it. What is not exactly as
:func:`engine.core.streams.frames.frame` writes it is not alike: columns and IDs give the same bytes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.streams.frames import fields_of

Ints = npt.NDArray[np.int64]
_Data = npt.NDArray[np.uint8]

#: Entries with more fields are not alike: each field costs some twenty calls of numpy, however few the entries are.
MOST_FIELDS = 64
#: Values longer than that on average are sliced one by one; of shorter ones each byte is gathered.
_LONG = 64
#: So many bytes can be counted with 32 bits and a sign.
_MOST_BYTES = (1 << 31) - 1
#: A length has at most so many digits.
_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Columns:
    """The fields of some entries. The value of entry i in a column is ``values[bounds[i]:bounds[i + 1]]``."""

    names: tuple[bytes, ...]
    #: For each name: where its values begin, and the end of the last one; int32, one more than there are entries.
    bounds: tuple[npt.NDArray[np.int32], ...]
    #: For each name: its values back to back.
    values: tuple[bytes, ...]


def spans(
    data: bytes | bytearray | memoryview, offsets: Sequence[int] | npt.NDArray[np.integer]
) -> tuple[tuple[bytes, ...], tuple[Ints, Ints], list[tuple[Ints, Ints]]] | None:
    """Of alike frames: the names of their fields; where in ``data`` the texts of IDs begin, and their lengths; and the
    same of each field's values. None if the frames are not alike.

    Frame i is ``data[offsets[i]:offsets[i + 1]]``: one offset more than there are frames, of which there is at least
    one. The first frame is a whole one; of the others nothing is taken for granted.
    """
    view = memoryview(data)
    first = fields_of(view[offsets[0] : offsets[1]])
    names = tuple(first[::2])
    if not names or len(names) > MOST_FIELDS or len(view) > _MOST_BYTES:
        return None
    array, edges = np.frombuffer(view, np.uint8), np.array(offsets, np.int64)
    at = _behind_text(array, edges[:-1], b"*2\r\n$")
    found = None if at is None else _behind_number(array, at)
    if found is None:
        return None
    at, lengths = entry_ids = found
    lead, fields = b"\r\n*%d" % len(first), []
    for name in names:
        behind = _behind_text(array, at + lengths, b"%b\r\n$%d\r\n%b\r\n$" % (lead, len(name), name))
        found = None if behind is None else _behind_number(array, behind)
        if found is None:
            return None
        at, lengths = found
        fields.append(found)
        lead = b""
    end = _behind_text(array, at + lengths, b"\r\n")
    return (names, entry_ids, fields) if end is not None and np.array_equal(end, edges[1:]) else None


def gathered(data: memoryview, starts: Ints, lengths: Ints) -> bytes:
    """The bytes of ``data`` from each of ``starts`` on, as many as ``lengths`` says, back to back."""
    size = int(lengths.sum())
    if size > _LONG * len(starts):
        ends = (starts + lengths).tolist()
        return b"".join([data[begin:end] for begin, end in zip(starts.tolist(), ends, strict=True)])
    # Byte number i of the result comes from i + (where its value begins - where that begins in the result).
    places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    places += np.arange(size)
    return np.frombuffer(data, np.uint8).take(places, mode="clip").tobytes()


def _behind_text(data: _Data, at: Ints, text: bytes) -> Ints | None:
    """Behind ``text``, which is to stand at each of these places; None where it does not."""
    if len(text) * len(at) > len(data) or int(at.max()) > len(data) - len(text):
        return None
    kind = np.dtype((np.void, len(text)))
    items = np.ndarray((len(data) - len(text) + 1,), kind, data, 0, (1,))
    return at + len(text) if items[at].tobytes() == text * len(at) else None


def _behind_number(data: _Data, at: Ints) -> tuple[Ints, Ints] | None:
    r"""Behind the number and the ``\r\n`` that are to stand at each of these places, and the numbers."""
    # (A place behind the end of the data reads as its last byte: no way leads back from there to the end of a frame.)
    digits = data.take(at, mode="clip") - np.uint8(ord("0"))
    if int(digits.max()) > 9:
        return None
    starts_with_zero = digits == 0
    numbers, behind = digits.astype(np.int64), at + 1
    for _ in range(_DIGITS):
        found = data.take(behind, mode="clip")
        more = found != ord("\r")
        if not more.any():
            return _ended(data, behind, numbers)
        digits = found - np.uint8(ord("0"))
        if (more & ((digits > 9) | starts_with_zero)).any():
            return None
        numbers = np.where(more, 10 * numbers + digits, numbers)
        behind = behind + more
    return None


def _ended(data: _Data, behind: Ints, numbers: Ints) -> tuple[Ints, Ints] | None:
    """The two, where a line feed follows the carriage return at each of these places."""
    is_line_end = data.take(behind + 1, mode="clip") == ord("\n")
    return (behind + 2, numbers) if is_line_end.all() else None


def overlapping(data: _Data, item: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """The items of this size that begin at each byte: so numpy copies texts of one length from or to any places."""
    return np.ndarray((len(data) - item.itemsize + 1,), item, data, 0, (1,))
