"""Options of XADD and XTRIM, which follow the key, as one table.

The handlers, the reader of logs and the recognition of XADD runs all use this table to split a command. Only the
handlers implement the options.
"""

from __future__ import annotations

from collections.abc import Mapping
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
