r"""A frame: an entry exactly as XRANGE replies with it. It is made once, when the entry is added.

::

    *2\r\n $15\r\n1518951480106-0\r\n  *4\r\n $9\r\nsensor-id\r\n $4\r\n1234\r\n ...
    `------------ head ------------'  `------------ fields, as they came in ------------'
"""

from __future__ import annotations

from collections.abc import Sequence

#: The bytes between two words, by the length of the second; for longer words they are made when needed.
_BETWEEN = [b"\r\n$%d\r\n" % length for length in range(1024)]


def frame(entry_id: bytes, fields: Sequence[bytes]) -> bytes:
    """The frame of an entry: its ID as text, and field, value, field, value ... as they came."""
    between = _BETWEEN
    try:
        parts = [part for word in fields for part in (between[len(word)], word)]
    except IndexError:
        parts = [part for word in fields for part in (b"\r\n$%d\r\n" % len(word), word)]
    return b"*2%b%b\r\n*%d%b\r\n" % (between[len(entry_id)], entry_id, len(fields), b"".join(parts))


def fields_of(entry: bytes | bytearray | memoryview) -> list[bytes]:
    """The [field, value, ...] of a frame, the inverse of :func:`frame`."""
    data = bytes(entry)
    at = data.index(b"*", 4)
    end = data.index(b"\r\n", at)
    words = []
    for _ in range(int(data[at + 1 : end])):
        at = end + 2
        end = data.index(b"\r\n", at)
        size = int(data[at + 1 : end])
        words.append(data[end + 2 : end + 2 + size])
        end += 2 + size
    return words
