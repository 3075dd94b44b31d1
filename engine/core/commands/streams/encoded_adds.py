"""XADDs as bytes in a value, as PS.APPEND takes them: commands for one key, with nothing but fields of their own."""

from __future__ import annotations

from collections.abc import Iterator

from engine.core.protocol.replies import CommandError
from engine.text.messages import streams


class EncodedAdds:
    """``XADD key * field value ...`` so many times, each with as many words; an :class:`XaddRun`."""

    __slots__ = ("bodies", "count", "head", "ids", "keys", "sizes", "words")

    def __init__(self, key: bytes, words: int, bodies: list[bytes]) -> None:
        self.count = len(bodies)
        self.head = [b"XADD", key, b"*"]
        self.words = words
        self.bodies = bodies
        self.sizes = list(map(len, bodies))
        self.keys: list[bytes] | None = None
        self.ids: list[bytes] | None = None

    def commands(self) -> Iterator[list[bytes]]:
        """The commands one by one, as words."""
        for body in self.bodies:
            words, at = self.head[:], 0
            for _ in range(self.words):
                line = body.index(b"\r\n", at)
                end = line + 2 + int(body[at + 1 : line])
                words.append(body[line + 2 : end])
                at = end + 2
            yield words


def adds_of(key: bytes, data: bytes) -> list[EncodedAdds]:
    """The commands that ``data`` holds, in their order. An error if it holds anything else, or nothing."""
    middle = b"$4\r\nXADD\r\n$%d\r\n%b\r\n$1\r\n*\r\n" % (len(key), key)
    found: list[EncodedAdds] = []
    bodies: list[bytes] = []
    before = at = 0
    try:
        while at < len(data):
            line = data.index(b"\r\n", at)
            words = _number(data, at, line, b"*") - 3
            start = line + 2 + len(middle)
            if words < 2 or words & 1 or data[line + 2 : start] != middle:
                raise CommandError(streams.NO_ADDS_TO_APPEND)
            if words != before and bodies:
                found.append(EncodedAdds(key, before, bodies))
                bodies = []
            before, at = words, _end(data, start, words)
            bodies.append(data[start:at])
    except ValueError:
        raise CommandError(streams.NO_ADDS_TO_APPEND) from None
    if not bodies:
        raise CommandError(streams.NO_ADDS_TO_APPEND)
    return [*found, EncodedAdds(key, before, bodies)]


def _end(data: bytes, at: int, words: int) -> int:
    """Where so many bulk strings end that begin at ``at``; a ValueError if there are not as many."""
    index = data.index
    for _ in range(words):
        line = index(b"\r\n", at)
        at = line + 4 + _number(data, at, line, b"$")
        if data[at - 2 : at] != b"\r\n":
            raise ValueError
    return at


def _number(data: bytes, at: int, line: int, kind: bytes) -> int:
    """The number of a header of that kind, which is ``data[at:line]``."""
    digits = data[at + 1 : line]
    if data[at : at + 1] != kind or not digits.isdigit() or len(digits) > 9:
        raise ValueError
    return int(digits)
