"""XADD as a value: its options and those of XTRIM as one table, and many pipelined XADDs.

The handlers, the reader of logs and the recognition of XADD runs all use the table of options to split a command. Only
the handlers implement the options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

POLICIES = (b"KEEPREF", b"DELREF", b"ACKED")


class Option(NamedTuple):
    """The words of one option."""

    #: Number of values after the token.
    values: int
    #: Whether ``=`` or ``~`` may precede the value.
    exactness: bool = False
    #: Minimum number of words after the token. If fewer follow, the token is not an option.
    followers: int = 0
    #: Whether XADDs with this option can be part of a run.
    uniform: bool = False


_POLICY = Option(0)
_THRESHOLD = Option(1, exactness=True, followers=1, uniform=True)

TRIM_OPTIONS: Mapping[bytes, Option] = {
    b"MAXLEN": _THRESHOLD,
    b"MINID": _THRESHOLD._replace(uniform=False),
    b"LIMIT": Option(1, followers=1),
} | dict.fromkeys(POLICIES, _POLICY)

ADD_OPTIONS: Mapping[bytes, Option] = {
    b"NOMKSTREAM": Option(0, followers=1),
    b"IDMPAUTO": Option(1, followers=1),
    b"IDMP": Option(2, followers=2),
    **TRIM_OPTIONS,
}


class Given(NamedTuple):
    """An option of a command: its token in upper case, and its words as sent, with the values last."""

    token: bytes
    words: list[bytes]


def divide(argv: list[bytes], known: Mapping[bytes, Option] = ADD_OPTIONS) -> tuple[list[Given], int]:
    """Return the options of a command, and the index of the first word after them.

    Values are not checked. As in Redis, a second policy ends the options.
    """
    given: list[Given] = []
    at, end, policies = 2, len(argv), 0
    while at < end:
        token = argv[at].upper()
        option = known.get(token)
        if option is None or at + option.followers >= end:
            break
        if option is _POLICY:
            if policies:
                break
            policies = 1
        behind = at + 1 + option.values
        if option.exactness and behind < end and argv[at + 1] in (b"=", b"~"):
            behind += 1
        given.append(Given(token, argv[at:behind]))
        at = behind
    return given, at


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
    #: Offset in the parsed buffer at which the commands end.
    end: int = 0

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


def word_in(bulk: bytes) -> bytes:
    """Return the word of a bulk string."""
    return bulk[bulk.index(b"\n") + 1 : -2]
