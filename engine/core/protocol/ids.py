"""Stream IDs as command arguments: ``-``, ``+`` and ``(`` in ranges, and Redis's errors.

The IDs themselves are defined by `streamwire.stream_id`, whose functions are also exported here.
"""

from __future__ import annotations

from array import array

from engine.core.protocol.replies import CommandError
from engine.text import messages
from streamwire import stream_id
from streamwire.stream_id import MAX_ID, MIN_ID, U64_MAX, columns, make, parse_u64, position, split, text

__all__ = [
    "MAX_ID",
    "MIN_ID",
    "U64_MAX",
    "IdColumns",
    "columns",
    "make",
    "parse",
    "parse_bound",
    "parse_high",
    "parse_low",
    "parse_many",
    "parse_u64",
    "position",
    "split",
    "text",
]


#: IDs as two columns, milliseconds and sequence numbers.
IdColumns = tuple["array[int]", "array[int]"]


def parse(word: bytes, missing_seq: int = 0) -> int:
    """Parse a complete or incomplete ID; an incomplete ID gets the sequence number ``missing_seq``.

    Raises CommandError with Redis's text.
    """
    try:
        return stream_id.parse(word, missing_seq)
    except ValueError:
        raise CommandError(messages.INVALID_ID) from None


def parse_many(words: list[bytes]) -> list[int]:
    """Parse complete or incomplete IDs. Raise CommandError with Redis's text."""
    try:
        return stream_id.parse_many(words)
    except ValueError:
        raise CommandError(messages.INVALID_ID) from None


def parse_bound(word: bytes, missing_seq: int = 0) -> int:
    """Parse an ID, or ``-`` and ``+`` for the smallest and the largest ID."""
    if word == b"-":
        return MIN_ID
    if word == b"+":
        return MAX_ID
    return parse(word, missing_seq)


def parse_low(word: bytes) -> int:
    """Parse the low end of a range into the first ID in the range. After ``(``, the ID is excluded."""
    if word[:1] != b"(":
        return parse_bound(word)
    entry_id = parse(word[1:])
    if entry_id == MAX_ID:
        raise CommandError(b"ERR invalid start ID for the interval")
    return entry_id + 1


def parse_high(word: bytes) -> int:
    """Parse the high end of a range into the last ID in the range. After ``(``, the ID is excluded."""
    if word[:1] != b"(":
        return parse_bound(word, U64_MAX)
    entry_id = parse(word[1:], U64_MAX)
    if entry_id == MIN_ID:
        raise CommandError(b"ERR invalid end ID for the interval")
    return entry_id - 1
