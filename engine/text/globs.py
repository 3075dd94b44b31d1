r"""Glob patterns as Redis matches them, for KEYS, SCAN, CONFIG GET and subscriptions: ``* ? [a-z] [^a] \\x``.

A pattern is turned into a regular expression once and remembered. Each ``*`` takes as little as the text up to the next
``*`` needs and never gives it back (an atomic group): a longer choice would leave a suffix of what this one leaves, so
nothing is missed, and a pattern from a client cannot make the match take exponential time.
"""

from __future__ import annotations

import re
from functools import lru_cache

#: Longer patterns are translated anew each time; a client must not fill memory with them.
_REMEMBERED_LENGTH = 256
_NEVER = rb"(?!)"


def _translated(pattern: bytes, ignore_case: bool) -> re.Pattern[bytes]:
    pieces: list[list[bytes]] = [[]]
    at = 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        at += 1
        if char == b"*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append([])
        elif char == b"?":
            pieces[-1].append(b".")
        elif char == b"[":
            at = _bracket(pattern, at, pieces[-1], ignore_case)
        else:
            if char == b"\\" and at < len(pattern):
                char = pattern[at : at + 1]
                at += 1
            pieces[-1].append(re.escape(char.lower() if ignore_case else char))
    first, *others = map(b"".join, pieces)
    expression = first
    for piece in others[:-1]:
        expression += b"(?>.*?" + piece + b")"
    if others:
        expression += b".*" + others[-1]
    return re.compile(expression, re.DOTALL)


_remembered = lru_cache(maxsize=1024)(_translated)


def _bracket(pattern: bytes, at: int, out: list[bytes], ignore_case: bool) -> int:
    """Translate a set that begins at ``at``, behind its bracket; where the pattern goes on.

    A set that is not closed ends at the pattern's end, where its last character may be the end of a range no more.
    """
    negated = pattern[at : at + 1] == b"^"
    at += negated
    members: list[bytes] = []
    while at < len(pattern) and pattern[at : at + 1] != b"]":
        char = pattern[at : at + 1]
        if char == b"\\" and at + 1 < len(pattern):
            at += 1
            members.append(re.escape(pattern[at : at + 1]))
        elif pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern):
            low, high = sorted((char, pattern[at + 2 : at + 3]))
            if ignore_case:
                low, high = low.lower(), high.lower()
            if low <= high:
                members.append(re.escape(low) + b"-" + re.escape(high))
            at += 2
        else:
            members.append(re.escape(char.lower() if ignore_case else char))
        at += 1
    inside = b"".join(members)
    if inside:
        out.append(b"[" + (b"^" if negated else b"") + inside + b"]")
    else:
        out.append(b"." if negated else _NEVER)
    return at + 1


def matches(pattern: bytes, text: bytes, ignore_case: bool = False) -> bool:
    """Whether the whole of ``text`` matches ``pattern``. As in Redis no star matches an empty text."""
    if not text:
        return not pattern
    if pattern == b"*":
        return True
    translate = _remembered if len(pattern) <= _REMEMBERED_LENGTH else _translated
    return translate(pattern, ignore_case).fullmatch(text.lower() if ignore_case else text) is not None
