r"""Glob patterns as Redis matches them, for KEYS, SCAN, CONFIG GET, ACLs and subscriptions: ``* ? [a-z] [^a] \x``.

A pattern is split at its stars into parts. The first part must match at the start of the text, and the last part at its
end. Each part between them is matched at its first occurrence. A later occurrence would only leave less text for the
following parts, so no backtracking is needed. Texts are matched in one of two ways:

* A short pattern is compiled to a regular expression with atomic groups, which is used for short texts.
* Long patterns and long texts are matched part by part. Parts without ``?`` and sets are found in linear time. For all
  other parts together, at most ``_STEPS`` elements are compared.

Limits bound the cost of a client's pattern. As in Redis, a pattern with more than 1,000 stars before its last character
matches nothing. Unlike in Redis, a pattern with more than ``_WILDCARDS`` sets, escapes and runs of ``?`` matches
nothing, and a match that takes more than ``_STEPS`` steps fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

Matcher = Callable[[bytes], bool]

#: Maximum length of a pattern that is compiled and cached, so that no client can fill the memory with patterns.
_SHORT = 256
#: A regular expression is used if pattern length times text length is at most this number. It then takes 1 ms at most.
_QUICK = 1 << 19
#: Maximum number of stars before the last character of a pattern.
_STARS = 1000
#: Maximum total number of sets, escapes and runs of ``?`` in a pattern.
_WILDCARDS = 5000
#: Maximum number of elements that are compared in a match.
_STEPS = 50_000


class _Any(NamedTuple):
    """A number of arbitrary characters: a run of ``?``."""

    size: int


#: An element of a part: text, a number of arbitrary characters, or a set of characters as a bit mask.
_Element = bytes | _Any | int
_Part = list[_Element]

_EVERY = (1 << 256) - 1
_TEXT = re.compile(rb"[^*?\[\\]+")
_STAR_RUN = re.compile(rb"\*+")
_ANY_RUN = re.compile(rb"\?+")


def matches(pattern: bytes, text: bytes, ignore_case: bool = False) -> bool:
    """Return whether all of ``text`` matches ``pattern``. As in Redis, ``*`` does not match an empty text."""
    return matcher(pattern, ignore_case)(text)


def matcher(pattern: bytes, ignore_case: bool = False) -> Matcher:
    """Return a function that matches texts with the pattern, for a pattern that is used repeatedly."""
    if len(pattern) <= _SHORT:
        return _cached(pattern, ignore_case)
    return _made(pattern, ignore_case)


def _made(pattern: bytes, ignore_case: bool) -> Matcher:
    if not pattern:
        return _is_empty
    if pattern == b"*":
        return bool
    if not ignore_case and (plain := _plain(pattern)) is not None:
        return plain
    parts = _parts(pattern, ignore_case)
    if parts is None or len(parts) - 2 >= _STARS + (not parts[-1]):
        return _nothing
    matched: Matcher = _ByParts(parts)
    if len(pattern) <= _SHORT:
        matched = _quick(re.compile(_expression(parts), re.DOTALL), _QUICK // len(pattern), matched)
    if not ignore_case:
        return matched
    return lambda text: matched(text.lower())


def _plain(pattern: bytes) -> Matcher | None:
    """Return the matcher of plain text, with or without a star at its end; None for other patterns.

    The matcher takes little memory, because thousands may be in use.
    """
    end = _end(_TEXT, pattern, 0) if pattern[0] not in b"*?[\\" else 0
    if end == len(pattern):
        return pattern.__eq__
    if end and end == len(pattern) - 1 and pattern.endswith(b"*"):
        prefix = pattern[:-1]
        return lambda text: text.startswith(prefix)
    return None


def _quick(expression: re.Pattern[bytes], longest: int, otherwise: Matcher) -> Matcher:
    """Return a matcher that uses the expression up to ``longest`` bytes, and ``otherwise`` for longer texts."""
    fullmatch = expression.fullmatch

    def matched(text: bytes) -> bool:
        if len(text) > longest:
            return otherwise(text)
        return fullmatch(text) is not None and text != b""

    return matched


_cached = lru_cache(maxsize=1024)(_made)


def _is_empty(text: bytes) -> bool:
    return not text


def _nothing(_: bytes) -> bool:
    return False


# -- reading a pattern ----------------------------------------------------------------------------------------------


def _parts(pattern: bytes, ignore_case: bool) -> list[_Part] | None:
    """Return the parts before, between and after the stars; None if ``_WILDCARDS`` is exceeded."""
    parts: list[_Part] = [[]]
    at = wildcards = 0
    while at < len(pattern):
        char = pattern[at]
        if char == 0x2A:
            at = _end(_STAR_RUN, pattern, at)
            parts.append([])
            continue
        part = parts[-1]
        if char == 0x3F:
            begin, at = at, _end(_ANY_RUN, pattern, at)
            part.append(_Any(at - begin))
        elif char == 0x5B:
            members, at = _set(pattern, at + 1, ignore_case)
            part.append(members)
        elif char == 0x5C:
            # A backslash at the very end is literal.
            _add_text(part, pattern[at + 1 : at + 2] or b"\\", ignore_case)
            at += 2
        else:
            begin, at = at, _end(_TEXT, pattern, at)
            _add_text(part, pattern[begin:at], ignore_case)
            continue
        wildcards += 1
        if wildcards > _WILDCARDS:
            return None
    return parts


def _end(expression: re.Pattern[bytes], pattern: bytes, at: int) -> int:
    found = expression.match(pattern, at)
    assert found is not None
    return found.end()


def _add_text(part: _Part, text: bytes, ignore_case: bool) -> None:
    if ignore_case:
        text = text.lower()
    last = part[-1] if part else None
    if isinstance(last, bytes):
        part[-1] = last + text
    else:
        part.append(text)


def _set(pattern: bytes, at: int, ignore_case: bool) -> tuple[int, int]:
    """Return the set whose members begin at ``at``, and the position in the pattern after it.

    An unclosed set extends to the end of the pattern; a ``-`` before its last character still makes a range.
    """
    negated = pattern[at : at + 1] == b"^"
    at += negated
    members = 0
    while at < len(pattern) and pattern[at] != 0x5D:
        low = high = pattern[at]
        if low == 0x5C and at + 1 < len(pattern):
            at += 1
            members |= 1 << pattern[at]
        else:
            if pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern):
                low, high = sorted((low, pattern[at + 2]))
                at += 2
            if ignore_case:
                low, high = bytes((low, high)).lower()
            if low <= high:
                members |= (1 << high + 1) - (1 << low)
        at += 1
    return (_EVERY ^ members if negated else members), at + 1


# -- matching -------------------------------------------------------------------------------------------------------


def _expression(parts: list[_Part]) -> bytes:
    first, *others = [b"".join(map(_element_expression, part)) for part in parts]
    if not others:
        return first
    return first + b"".join([b"(?>.*?" + part + b")" for part in others[:-1]]) + b".*" + others[-1]


def _element_expression(element: _Element) -> bytes:
    if isinstance(element, bytes):
        return re.escape(element)
    if isinstance(element, _Any):
        return b".{%d}" % element.size
    if not element:
        return b"(?!)"
    ranges, at = [], 0
    while members := element >> at:
        # The lowest range of members.
        low = at + (members & -members).bit_length() - 1
        above = (element >> low) + 1
        at = low + (above & -above).bit_length() - 1
        ranges.append(re.escape(bytes((low,))) + b"-" + re.escape(bytes((at - 1,))))
    return b"[" + b"".join(ranges) + b"]"


class _ByParts:
    """Matches part by part; every part has a fixed size."""

    __slots__ = ("_least", "_parts")

    def __init__(self, parts: list[_Part]) -> None:
        self._parts = [(part, _size(part)) for part in parts]
        self._least = sum(size for _, size in self._parts)

    def __call__(self, text: bytes) -> bool:
        end = len(text)
        if not end or end < self._least:
            return False
        (first, at), *others = self._parts
        if not _matches_at(first, text, 0):
            return False
        if not others:
            return at == end
        last, size = others.pop()
        end -= size
        if not _matches_at(last, text, end):
            return False
        steps = _STEPS
        for part, size in others:
            at, steps = _first_position(part, size, text, at, end, steps)
            if at < 0:
                return False
            at += size
        return True


def _size(part: _Part) -> int:
    return sum(map(_element_size, part))


def _element_size(element: _Element) -> int:
    if isinstance(element, bytes):
        return len(element)
    return element.size if isinstance(element, _Any) else 1


def _first_position(part: _Part, size: int, text: bytes, at: int, end: int, steps: int) -> tuple[int, int]:
    """Return the first position of a part in text[at:end] (-1: not found within ``steps``), and the remaining steps."""
    needle, offset = _longest_text(part)
    if len(needle) == size:
        return text.find(needle, at, end), steps
    last = end - size
    while at <= last:
        if needle:
            found = text.find(needle, at + offset, last + offset + len(needle))
            if found < 0:
                break
            at = found - offset
        steps -= len(part)
        if steps < 0:
            break
        if _matches_at(part, text, at):
            return at, steps
        at += 1
    return -1, steps


def _longest_text(part: _Part) -> tuple[bytes, int]:
    """Return the longest text in a part, and its offset."""
    longest, offset, at = b"", 0, 0
    for element in part:
        if isinstance(element, bytes) and len(element) > len(longest):
            longest, offset = element, at
        at += _element_size(element)
    return longest, offset


def _matches_at(part: _Part, text: bytes, at: int) -> bool:
    """Return whether the part matches at this position of the text, which must be long enough."""
    for element in part:
        if isinstance(element, bytes):
            if not text.startswith(element, at):
                return False
            at += len(element)
        elif isinstance(element, _Any):
            at += element.size
        elif element >> text[at] & 1:
            at += 1
        else:
            return False
    return True
