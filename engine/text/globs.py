r"""Glob patterns as Redis matches them, for KEYS, SCAN, CONFIG GET, ACLs and subscriptions: ``* ? [a-z] [^a] \x``.

A pattern becomes a regular expression, in which each star is an atomic group: the text between two stars is matched at
its first occurrence. A later occurrence would only leave less text for the rest of the pattern, so no backtracking is
needed.

Limits bound the cost of a client's pattern. Unlike in Redis, a pattern of more than ``_LONGEST`` bytes matches nothing,
and a match fails if it may take more than ``_STEPS`` steps. Neither limit applies to plain text, also with a star at
its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

Matcher = Callable[[bytes], bool]

#: Maximum length of a pattern in bytes. The cache holds the regular expressions of many patterns.
_LONGEST = 1024
#: Maximum product of a pattern's and a text's length, which takes some 10 ms at most.
_STEPS = 1 << 22
_TEXT = re.compile(rb"[^*?\[\\]*")


def matches(pattern: bytes, text: bytes, ignore_case: bool = False) -> bool:
    """Return whether all of ``text`` matches ``pattern``. As in Redis, ``*`` does not match an empty text."""
    return matcher(pattern, ignore_case)(text)


@lru_cache(maxsize=1024)
def matcher(pattern: bytes, ignore_case: bool = False) -> Matcher:
    """Return a function that matches texts with the pattern, for a pattern that is used repeatedly."""
    if ignore_case:
        matched = matcher(pattern.lower())
        return lambda text: matched(text.lower())
    if pattern == b"*":
        return bool
    plain = _TEXT.match(pattern)
    end = plain.end() if plain is not None else 0
    if end == len(pattern):
        return pattern.__eq__
    if end == len(pattern) - 1 and pattern.endswith(b"*"):
        prefix = pattern[:-1]
        return lambda text: text.startswith(prefix)
    if len(pattern) > _LONGEST:
        return lambda _: False
    fullmatch, longest = re.compile(_expression(pattern), re.DOTALL).fullmatch, _STEPS // len(pattern)
    return lambda text: 0 < len(text) <= longest and fullmatch(text) is not None


def _expression(pattern: bytes) -> bytes:
    """Return the pattern as a regular expression."""
    first, *others = _parts(pattern)
    if not others:
        return first
    return first + b"".join([b"(?>.*?" + part + b")" for part in others[:-1]]) + b".*" + others[-1]


def _parts(pattern: bytes) -> list[bytes]:
    """Return the expressions of the text before, between and after the stars."""
    parts = [b""]
    at = 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        at += 1
        if char == b"*":
            parts.append(b"")
        elif char == b"?":
            parts[-1] += b"."
        elif char == b"[":
            expression, at = _set(pattern, at)
            parts[-1] += expression
        elif char == b"\\":
            # A backslash at the very end is literal.
            parts[-1] += re.escape(pattern[at : at + 1] or b"\\")
            at += 1
        else:
            parts[-1] += re.escape(char)
    return parts


def _set(pattern: bytes, at: int) -> tuple[bytes, int]:
    """Return the expression of the set whose members begin at ``at``, and the position in the pattern after it.

    An unclosed set extends to the end of the pattern; a ``-`` before its last character still makes a range.
    """
    negated = pattern[at : at + 1] == b"^"
    at += negated
    members = b""
    while at < len(pattern) and pattern[at] != 0x5D:
        low = high = pattern[at]
        if low == 0x5C and at + 1 < len(pattern):
            at += 1
            low = high = pattern[at]
        elif pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern):
            low, high = sorted((low, pattern[at + 2]))
            at += 2
        members += re.escape(bytes((low,))) + b"-" + re.escape(bytes((high,)))
        at += 1
    if not members:
        return b"." if negated else b"(?!)", at + 1
    return (b"[^" if negated else b"[") + members + b"]", at + 1
