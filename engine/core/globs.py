r"""Glob patterns as Redis matches them, for KEYS, SCAN, CONFIG GET and subscriptions: ``* ? [a-z] [^a] \x``.

A pattern is turned into a regular expression once and remembered.
"""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=1024)
def _compiled(pattern: bytes, ignore_case: bool) -> re.Pattern[bytes]:
    out: list[bytes] = []
    at = 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        at += 1
        if char == b"*":
            if not out or out[-1] != b".*":
                out.append(b".*")
        elif char == b"?":
            out.append(b".")
        elif char == b"[":
            at = _bracket(pattern, at, out)
        else:
            if char == b"\\" and at < len(pattern):
                char = pattern[at : at + 1]
                at += 1
            out.append(re.escape(char))
    return re.compile(b"".join(out), re.DOTALL | (re.IGNORECASE if ignore_case else re.NOFLAG))


def _bracket(pattern: bytes, at: int, out: list[bytes]) -> int:
    """Translate a set that begins at ``at`` (behind its bracket); where the pattern goes on. An open set ends at the
    end.
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
            members.append(re.escape(low) + b"-" + re.escape(high))
            at += 2
        else:
            members.append(re.escape(char))
        at += 1
    inside = b"".join(members)
    if inside:
        out.append(b"[" + (b"^" if negated else b"") + inside + b"]")
    else:
        out.append(b"." if negated else b"(?!)")
    return at + 1


def matches(pattern: bytes, text: bytes, ignore_case: bool = False) -> bool:
    """Whether the whole of ``text`` matches ``pattern``."""
    return pattern == b"*" or _compiled(pattern, ignore_case).fullmatch(text) is not None
