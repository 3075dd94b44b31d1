"""Many pipelined XADD commands as one value."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class XaddRun:
    """``count`` valid XADD commands with the same options and number of fields."""

    count: int
    #: The first command's words before its fields: XADD, key, options, ID.
    head: list[bytes]
    #: Number of words (fields and values) of each entry.
    words: int
    #: Each command's bytes from its first field on.
    bodies: list[bytes]
    #: Length of each of ``bodies``.
    sizes: list[int]
    #: Each command's key as a bulk string (``$1\r\ns\r\n``); None: all use the first command's key.
    keys: list[bytes] | None = None
    #: Each command's ID as a bulk string; None: all are ``*``.
    ids: list[bytes] | None = None

    def distinct_keys(self) -> list[bytes]:
        """Return the keys of the commands, each once."""
        return [self.head[1]] if self.keys is None else list(map(word_in, set(self.keys)))

    def commands(self) -> Iterator[list[bytes]]:
        """Yield the commands one by one, as words."""
        for row, body in enumerate(self.bodies):
            words, at = self.head[:], 0
            if self.keys is not None:
                words[1] = word_in(self.keys[row])
            if self.ids is not None:
                words[-1] = word_in(self.ids[row])
            for _ in range(self.words):
                line_end = body.index(b"\r\n", at)
                end = line_end + 2 + int(body[at + 1 : line_end])
                words.append(body[line_end + 2 : end])
                at = end + 2
            yield words


@dataclass(slots=True)
class FramedRun:
    """``count`` XADD commands for one key with ascending IDs, whose frames are already built."""

    key: bytes
    count: int
    #: The frames back to back.
    frames: bytes | bytearray
    #: Size of each frame in bytes.
    sizes: list[int]
    #: Milliseconds of each ID.
    ms: array[int]
    #: Sequence number of each ID.
    seq: array[int]
    #: Offset in the parsed buffer at which the commands end.
    end: int


def word_in(bulk: bytes) -> bytes:
    """Return the word of a bulk string."""
    return bulk[bulk.index(b"\n") + 1 : -2]
