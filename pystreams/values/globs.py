r"""Globs of Redis (`*`, `?`, `[a-c]`, `[^a]`, and `\` before a literal character), matched by this process."""

from __future__ import annotations

import re

_PART = re.compile(rb"\\(.)|\[(\^?)((?:\\.|[^\]])*)\]|(\*)|(\?)|(.)", re.DOTALL)


def is_glob(word: str) -> bool:
    """Return whether the argument `word` contains characters of a glob, including escaped characters."""
    return any(each in word for each in "*?[\\")


def pattern(glob: bytes) -> re.Pattern[bytes]:
    """Return the regular expression whose `fullmatch` accepts the names that the glob matches."""
    return re.compile(b"".join(map(_as_regex, _PART.finditer(glob))), re.DOTALL)


def _as_regex(part: re.Match[bytes]) -> bytes:
    escaped, negated, members, many, single, plain = part.groups()
    if many or single:
        return b".*" if many else b"."
    if members is None:
        return re.escape(escaped or plain)
    # Escape all members of a set except `-`, which denotes a range.
    inner = b"".join(
        re.escape(each[-1:]) if each != b"-" else each for each in re.findall(rb"\\.|.", members, re.DOTALL)
    )
    return b"[" + negated + inner + b"]" if inner else b"." if negated else rb"(?!)"
