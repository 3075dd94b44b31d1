"""Entry IDs: one integer, ``milliseconds << 64 | sequence``.

As an integer an ID compares, sorts and bisects like the pair it stands for, its successor is ``+ 1`` and its
predecessor ``- 1``, the carry between the two halves included. Only this module knows the text forms.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from engine.core.protocol.replies import CommandError
from engine.text.messages import streams

U64_MAX = (1 << 64) - 1
MIN_ID = 0
MAX_ID = (1 << 128) - 1
_TEXT_MAX = 127
#: Decimal numbers of fewer digits are below 2**64.
_SHORT = 20


def make(ms: int, seq: int) -> int:
    """The ID of the pair, both halves in 0 .. 2**64-1."""
    return ms << 64 | seq


def split(entry_id: int) -> tuple[int, int]:
    """The (milliseconds, sequence) pair of an ID."""
    return entry_id >> 64, entry_id & U64_MAX


def text(entry_id: int) -> bytes:
    """The canonical ``ms-seq`` form."""
    return b"%d-%d" % (entry_id >> 64, entry_id & U64_MAX)


def position(ms: array[int], seq: array[int], entry_id: int) -> int:
    """Where ``entry_id`` stands, or would stand, in ascending IDs kept as two columns."""
    half = entry_id >> 64
    low = bisect_left(ms, half)
    if low == len(ms) or ms[low] != half or seq[low] >= entry_id & U64_MAX:
        return low
    if low + 1 == len(ms) or ms[low + 1] != half:
        return low + 1
    return bisect_left(seq, entry_id & U64_MAX, low + 1, bisect_right(ms, half, low + 1))


def parse_u64(digits: bytes) -> int:
    """An unsigned 64-bit decimal number, or -1 where ``digits`` is none."""
    # (Python refuses to read numbers of thousands of digits.)
    if not digits.isdigit() or len(digits) > _TEXT_MAX:
        return -1
    value = int(digits)
    return value if value <= U64_MAX else -1


def parse(word: bytes, missing_seq: int = 0) -> int:
    """A complete (``ms-seq``) or incomplete (``ms``) ID; ``missing_seq`` is the sequence of an incomplete one.

    Raises CommandError with Redis's text for anything else, the special IDs included.
    """
    ms_text, dash, seq_text = word.partition(b"-")
    if len(word) < _SHORT and ms_text.isdigit() and seq_text.isdigit():
        # Neither half can be too large.
        return int(ms_text) << 64 | int(seq_text)
    ms = parse_u64(ms_text)
    seq = parse_u64(seq_text) if dash else missing_seq
    if ms < 0 or seq < 0 or len(word) > _TEXT_MAX:
        raise CommandError(streams.INVALID_ID)
    return ms << 64 | seq


def parse_many(words: list[bytes]) -> list[int]:
    """As :func:`parse` of every word, a great deal quicker where all of many are plain ``ms-seq``."""
    if len(words) == 1:
        return [parse(words[0])]
    text = b"-".join(words) if len(words) > 4 else b""
    if text and not text.translate(None, b"0123456789-") and set(map(_dashes, words)) == {1}:
        try:
            halves = array("Q", map(int, text.split(b"-")))
        except (ValueError, OverflowError):
            pass
        else:
            return [ms << 64 | seq for ms, seq in zip(halves[::2], halves[1::2], strict=True)]
    return [parse(word) for word in words]


def _dashes(word: bytes) -> int:
    return word.count(b"-")


def columns(entry_ids: list[int]) -> tuple[array[int], array[int]]:
    """IDs as two columns: milliseconds, sequence numbers."""
    return array("Q", [one >> 64 for one in entry_ids]), array("Q", [one & U64_MAX for one in entry_ids])


def parse_bound(word: bytes, missing_seq: int = 0) -> int:
    """As :func:`parse`, and ``-`` and ``+`` for the smallest and the greatest ID."""
    if word == b"-":
        return MIN_ID
    if word == b"+":
        return MAX_ID
    return parse(word, missing_seq)


def parse_low(word: bytes) -> int:
    """The low end of a range, inclusive in the result; ``(`` makes the word's ID exclusive."""
    if word[:1] != b"(":
        return parse_bound(word)
    entry_id = parse(word[1:])
    if entry_id == MAX_ID:
        raise CommandError(streams.INVALID_RANGE_START)
    return entry_id + 1


def parse_high(word: bytes) -> int:
    """The high end of a range, inclusive in the result; ``(`` makes the word's ID exclusive."""
    if word[:1] != b"(":
        return parse_bound(word, U64_MAX)
    entry_id = parse(word[1:], U64_MAX)
    if entry_id == MIN_ID:
        raise CommandError(streams.INVALID_RANGE_END)
    return entry_id - 1
