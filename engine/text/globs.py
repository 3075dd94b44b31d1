r"""Glob patterns as Redis matches them, for KEYS, SCAN, CONFIG GET and subscriptions: ``* ? [a-z] [^a] \\x``.

A pattern is translated to a regular expression, which is cached. Each ``*`` matches as little as possible before the
text up to the next ``*``, and never backtracks (an atomic group). That misses nothing, because a longer match would
leave a suffix of what the shortest one leaves; and no client's pattern can make a match take exponential time.
"""

from __future__ import annotations

import re
from functools import lru_cache

#: Longer patterns are not cached, so that a client cannot fill memory with them.
_CACHED_LENGTH = 256
_NEVER = rb"(?!)"


def _translated(pattern: bytes, ignore_case: bool) -> re.Pattern[bytes]:
    parts: list[list[bytes]] = [[]]
    at = 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        at += 1
        if char == b"*":
            if parts[-1] or len(parts) == 1:
                parts.append([])
        elif char == b"?":
            parts[-1].append(b".")
        elif char == b"[":
            at = _bracket(pattern, at, parts[-1], ignore_case)
        else:
            if char == b"\\" and at < len(pattern):
                char = pattern[at : at + 1]
                at += 1
            parts[-1].append(re.escape(char.lower() if ignore_case else char))
    first, *others = map(b"".join, parts)
    expression = first
    for part in others[:-1]:
        expression += b"(?>.*?" + part + b")"
    if others:
        expression += b".*" + others[-1]
    return re.compile(expression, re.DOTALL)


_cached = lru_cache(maxsize=1024)(_translated)


def _bracket(pattern: bytes, at: int, out: list[bytes], ignore_case: bool) -> int:
    """Translate the set whose members begin at ``at``; returns where the pattern goes on behind it.

    A set that is not closed ends where the pattern ends; a ``-`` before its last character still makes a range.
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
    """Whether all of ``text`` matches ``pattern``. As in Redis, no ``*`` matches an empty text."""
    if not text:
        return not pattern
    if pattern == b"*":
        return True
    translate = _cached if len(pattern) <= _CACHED_LENGTH else _translated
    return translate(pattern, ignore_case).fullmatch(text.lower() if ignore_case else text) is not None
