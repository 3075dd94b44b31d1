"""Stream IDs: the integer `milliseconds << 64 | sequence`, and the text form `milliseconds-sequence`.

The integers are ordered like the pairs that they represent. `+ 1` gives the next ID and `- 1` the previous one, with
the carry between the halves. `StreamId` is this integer with names for its parts. For many IDs, plain integers or two
columns of halves are used instead.

Offsets in checkpoints contain the text form, so it must never change.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right

U64_MAX = (1 << 64) - 1
MIN_ID, MAX_ID = 0, (1 << 128) - 1

#: Maximum length of an ID's text, as in Redis.
LONGEST = 127
#: Numbers with fewer decimal digits than this are below 2**64.
_SHORT = 20
_DATE = re.compile(r"(?:19[7-9]|2[01][0-9])[0-9](?:-[0-9]{2}|[0-9]{4})?")


class StreamId(int):
    """A stream ID. Even 0-0 is truthy, so that `if id` only tests for None."""

    __slots__ = ()

    def __new__(cls, ms: int, seq: int = 0) -> StreamId:
        """Return the ID with `ms` milliseconds since 1970 and the sequence number `seq`, both below 2**64."""
        return int.__new__(cls, ms << 64 | seq)

    @classmethod
    def of(cls, number: int) -> StreamId:
        """Return the ID of an integer in the form `milliseconds << 64 | sequence`."""
        return int.__new__(cls, number)

    @classmethod
    def parse(cls, text: str | bytes, seq: int = 0) -> StreamId:
        """Return the ID in `text`, with `seq` if it has no sequence number. Raises ValueError if it is not an ID."""
        return int.__new__(cls, parse(text.encode("ascii", "replace") if isinstance(text, str) else text, seq))

    @property
    def ms(self) -> int:
        return self >> 64

    @property
    def seq(self) -> int:
        return self & U64_MAX

    def before(self) -> StreamId:
        """Return the previous ID, or this ID if it is 0-0."""
        return StreamId.of(self - 1) if self > MIN_ID else self

    def next(self) -> StreamId:
        """Return the next ID, or this ID if it is the largest."""
        return StreamId.of(self + 1) if self < MAX_ID else self

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return f"{self >> 64}-{self & U64_MAX}"

    def __repr__(self) -> str:
        return f"StreamId({self.ms}, {self.seq})"

    def __reduce__(self) -> tuple[type[StreamId], tuple[int, int]]:
        return StreamId, (self.ms, self.seq)


ZERO = StreamId.of(MIN_ID)
LAST = StreamId.of(MAX_ID)


def is_date(text: str) -> bool:
    """Return whether a text looks like a year, month or day between 1970 and 2199 rather than an ID."""
    return _DATE.fullmatch(text) is not None


def make(ms: int, seq: int) -> int:
    """Return the ID with these milliseconds and this sequence number. Both must be in 0 .. 2**64-1."""
    return ms << 64 | seq


def split(entry_id: int) -> tuple[int, int]:
    """Return the (milliseconds, sequence) pair of an ID."""
    return entry_id >> 64, entry_id & U64_MAX


def text(entry_id: int) -> bytes:
    """Return the canonical text form."""
    return b"%d-%d" % (entry_id >> 64, entry_id & U64_MAX)


def parse_u64(digits: bytes) -> int:
    """Return an unsigned 64-bit decimal number, or -1 if `digits` is not one."""
    # The length is checked first because Python refuses to parse numbers of thousands of digits.
    if not digits.isdigit() or len(digits) > LONGEST:
        return -1
    value = int(digits)
    return value if value <= U64_MAX else -1


def parse(word: bytes, missing_seq: int = 0) -> int:
    """Return a complete (`ms-seq`) or incomplete (`ms`) ID; an incomplete ID gets the sequence number `missing_seq`.

    Raises ValueError for anything else, including special IDs such as `$` and `+`.
    """
    ms_text, dash, seq_text = word.partition(b"-")
    if len(word) < _SHORT and ms_text.isdigit() and seq_text.isdigit():
        # Both halves have too few digits to exceed 64 bits.
        return int(ms_text) << 64 | int(seq_text)
    ms = parse_u64(ms_text)
    seq = parse_u64(seq_text) if dash else missing_seq
    if ms < 0 or seq < 0 or len(word) > LONGEST:
        raise ValueError(f"{word!r} is not a stream ID")
    return ms << 64 | seq


def parse_many(words: list[bytes]) -> list[int]:
    """Parse each word like `parse`, but much faster if there are many words and all are plain `ms-seq`."""
    if len(words) == 1:
        return [parse(words[0])]
    joined = b"-".join(words) if len(words) > 4 else b""
    if joined and not joined.translate(None, b"0123456789-") and {word.count(b"-") for word in words} == {1}:
        try:
            halves = array("Q", map(int, joined.split(b"-")))
        except (ValueError, OverflowError):
            pass
        else:
            return [ms << 64 | seq for ms, seq in zip(halves[::2], halves[1::2], strict=True)]
    return [parse(word) for word in words]


def columns(entry_ids: list[int]) -> tuple[array[int], array[int]]:
    """Return IDs as two columns: milliseconds, sequence numbers."""
    ms, seq = [entry_id >> 64 for entry_id in entry_ids], [entry_id & U64_MAX for entry_id in entry_ids]
    return array("Q", ms), array("Q", seq)


def position(ms: array[int], seq: array[int], entry_id: int) -> int:
    """Return the index at which `entry_id` is, or would be inserted, in ascending IDs stored as two columns."""
    half = entry_id >> 64
    low = bisect_left(ms, half)
    if low == len(ms) or ms[low] != half or seq[low] >= entry_id & U64_MAX:
        return low
    if low + 1 == len(ms) or ms[low + 1] != half:
        return low + 1
    return bisect_left(seq, entry_id & U64_MAX, low + 1, bisect_right(ms, half, low + 1))
