r"""Splitting lines into words, for inline commands, configuration files and CONFIG SET, and quoting words.

Blanks separate words. In ``"..."`` the escapes are ``\n \r \t \b \a \xHH``, and ``\c`` is c for any other character; in
``'...'`` the only escape is ``\'``. A closing quote must be followed by a blank or the end of the line.
"""

from __future__ import annotations

import re

_BLANKS = re.compile(rb"[ \n\r\t\v\f\0]*")
# As in Redis, vertical tabs and form feeds are skipped before a word, but do not end one.
_WORD = re.compile(
    rb"""([^ \n\r\t\0"']*+)(?:"((?:[^"\\]++|\\.)*+)"|'((?:[^'\\]++|\\'?)*+)')?+(?=[ \n\r\t\v\f\0]|\Z)""", re.DOTALL
)
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}


def split_words(line: bytes) -> list[bytes] | None:
    """Return the words of ``line``; None if a quote is not closed, or not followed by a blank or the end."""
    words: list[bytes] = []
    at = _end_of_blanks(line, 0)
    while at < len(line):
        found = _WORD.match(line, at)
        if found is None:
            return None
        plain, double, single = found.groups(b"")
        words.append(plain + _ESCAPE.sub(_unescaped, double) + single.replace(b"\\'", b"'"))
        at = _end_of_blanks(line, found.end())
    return words


def _end_of_blanks(line: bytes, at: int) -> int:
    found = _BLANKS.match(line, at)
    return found.end() if found is not None else at


def _unescaped(escape: re.Match[bytes]) -> bytes:
    code, char = escape.groups()
    return bytes((int(code, 16),)) if code is not None else _ESCAPES.get(char, char)


def quote(word: bytes) -> bytes:
    """Return ``word`` in double quotes; ``split_words`` is the inverse."""
    out = [b'"']
    for code in word:
        char = bytes([code])
        if char in (b'"', b"\\"):
            out.append(b"\\" + char)
        elif 32 <= code < 127:
            out.append(char)
        else:
            out.append(b"\\x%02x" % code)
    return b"".join([*out, b'"'])
