"""Stream IDs as command arguments: ``-``, ``+`` and ``(`` in ranges, Redis's errors, and unusual texts of numbers.

The IDs themselves are defined by `streamwire.stream_id`, whose functions are also exported here.
"""

from __future__ import annotations

import re
from array import array

from engine.core.protocol.replies import CommandError
from engine.text import messages
from streamwire import stream_id
from streamwire.stream_id import LONGEST, MAX_ID, MIN_ID, U64_MAX, columns, make, position, split, text

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
    "special",
    "split",
    "text",
]


#: IDs as two columns, milliseconds and sequence numbers.
IdColumns = tuple["array[int]", "array[int]"]

#: A number as the C library reads it, and a negative number as Redis itself reads it.
_UNUSUAL = re.compile(rb"[ \t\n\v\f\r]*([+-]?)([0-9]+)")
_NEGATIVE = re.compile(rb"-[1-9][0-9]*")


_SPECIAL = frozenset((b"*", b"$", b">", b"-", b"+"))


def special(word: bytes) -> bytes:
    """Return a special ID up to a NUL byte, which ends a text in C; return other words unchanged."""
    if b"\0" not in word:
        return word
    begin = word.partition(b"\0")[0]
    return begin if begin in _SPECIAL or begin.endswith(b"-*") else word


def parse_u64(text: bytes) -> int:
    """Parse an unsigned 64-bit number as Redis does; return -1 for any other text.

    Blanks and a sign may precede the digits, and a NUL byte ends the number. As in C, -n is 2**64 - n, but Redis
    refuses an ordinary negative 64-bit number.
    """
    value = stream_id.parse_u64(text)
    if value >= 0 or len(text) > LONGEST:
        return value
    text = text.partition(b"\0")[0]
    found = _UNUSUAL.fullmatch(text)
    value = int(found[2]) if found else -1
    if value > U64_MAX or (value <= 1 << 63 and _NEGATIVE.fullmatch(text)):
        return -1
    return -value & U64_MAX if found and found[1] == b"-" else value


def parse(word: bytes, missing_seq: int = 0) -> int:
    """Parse a complete or incomplete ID; an incomplete ID gets the sequence number ``missing_seq``.

    Raises CommandError with Redis's text.
    """
    try:
        return stream_id.parse(word, missing_seq)
    except ValueError:
        ms_text, dash, seq_text = word.partition(b"\0")[0].partition(b"-")
        ms, seq = parse_u64(ms_text), parse_u64(seq_text) if dash else missing_seq
        if ms < 0 or seq < 0 or len(word) > LONGEST:
            raise CommandError(messages.INVALID_ID) from None
        return ms << 64 | seq


def parse_many(words: list[bytes]) -> list[int]:
    """Parse complete or incomplete IDs. Raise CommandError with Redis's text."""
    try:
        return stream_id.parse_many(words)
    except ValueError:
        return [parse(word) for word in words]


def parse_bound(word: bytes, missing_seq: int = 0) -> int:
    """Parse an ID, or ``-`` and ``+`` for the smallest and the largest ID."""
    word = special(word)
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
