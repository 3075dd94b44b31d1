r"""Frames: entries exactly as XRANGE sends them.

::

    *2\r\n $15\r\n1518951480106-0\r\n  *4\r\n $9\r\nsensor-id\r\n $4\r\n1234\r\n ...
    `------------ head ------------'  `------------------- fields ------------------'

Frames are *alike* if they have the same field names in the same order, as one producer's entries have. `follow` finds
the parts of alike frames all at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamwire.walker import Bulks, Walker

#: What each frame begins with, up to the length of its ID.
HEAD = b"*2\r\n$"

#: The bytes between two words, by the length of the second; for longer words they are made when needed.
_BETWEEN = [b"\r\n$%d\r\n" % length for length in range(1024)]


def frame(entry_id: bytes, fields: Sequence[bytes]) -> bytes:
    """Return the frame of an entry: its ID as text, and field, value, field, value ..."""
    between = _BETWEEN
    try:
        parts = [part for word in fields for part in (between[len(word)], word)]
    except IndexError:
        parts = [part for word in fields for part in (b"\r\n$%d\r\n" % len(word), word)]
    return b"*2%b%b\r\n*%d%b\r\n" % (between[len(entry_id)], entry_id, len(fields), b"".join(parts))


def fields_of(entry: bytes | bytearray | memoryview) -> list[bytes]:
    """Return the [field, value, ...] of a whole frame, the inverse of `frame`.

    Only the first frame of `entry` is read. Raises ValueError if it does not begin with one.
    """
    data = bytes(entry)
    at = data.index(b"*", 4)
    end = data.index(b"\r\n", at)
    words = []
    for _ in range(int(data[at + 1 : end])):
        at = end + 2
        end = data.index(b"\r\n", at)
        size = int(data[at + 1 : end])
        if size < 0:
            raise ValueError("a null in the place of a word")
        words.append(data[end + 2 : end + 2 + size])
        end += 2 + size
    return words


def follow(walker: Walker, names: Sequence[bytes], lead: bytes = b"") -> tuple[Bulks, list[Bulks]]:
    """Follow alike frames with these field names: return the IDs, and the values of each field.

    The walker stands `lead` before the frames, and afterwards before the line ends of the last values. Raises Mismatch
    as the walker does.
    """
    pieces = [b"\r\n$%d\r\n%b\r\n$" % (len(name), name) for name in names]
    pieces[0] = b"\r\n*%d%b" % (2 * len(names), pieces[0])
    entry_ids = walker.bulk(lead + HEAD)
    return entry_ids, [walker.bulk(piece) for piece in pieces]
