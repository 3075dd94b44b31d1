"""Regular expressions of the option `subscribePattern`. Redis searches keys only by glob, so names are matched here."""

from __future__ import annotations

import re

from streamwire.errors import InvalidTextError

_LITERAL = re.compile(r"\\(?P<escaped>[^\w\s])|(?P<plain>[^\\^$.|?*+()\[\]{}])")
_OPTIONAL = ("*", "?", "{")  # quantifiers after which a character may be missing


def regular_expression(text: str) -> str:
    """Return the text if it is a regular expression. Raises InvalidTextError."""
    if not text:
        raise InvalidTextError("it must not be empty")
    try:
        re.compile(text)
    except re.error as cause:
        raise InvalidTextError(f"it is not a regular expression ({cause})") from cause
    return text


def around(regex: str) -> str:
    """Return a glob that matches all names that the regular expression matches, and possibly others.

    The glob begins with the characters with which every matching name begins.
    """
    rest = regex.removeprefix("^")
    prefix: list[str] = []
    while "|" not in regex and (found := _LITERAL.match(rest)) is not None:
        rest = rest[found.end() :]
        if rest.startswith(_OPTIONAL):
            break
        prefix.append(found["escaped"] or found["plain"])
    return "".join(f"\\{each}" if each in "*?[]\\^-" else each for each in prefix) + "*"
