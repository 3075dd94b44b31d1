r"""Splitting lines into words, for inline commands, configuration files and CONFIG SET, and quoting words.

Blanks separate words. In ``"..."`` the escapes are ``\n \r \t \b \a \xHH``, and ``\c`` is c for any other character; in
``'...'`` the only escape is ``\'``. A closing quote must be followed by a blank or the end of the line.
"""

from __future__ import annotations

import re

_BLANK = b" \n\r\t\v\f\0"
# As in Redis, vertical tabs and form feeds are skipped before a word, but do not end one.
_END = b" \n\r\t\0"
_PLAIN = re.compile(rb"[^ \n\r\t\0\"']+")
_SPECIAL = re.compile(rb"[\"'\0\v\f]")
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}
_HEX = re.compile(rb"x([0-9a-fA-F]{2})")
_IN_DOUBLE = re.compile(rb'[^"\\]+')
_IN_SINGLE = re.compile(rb"[^'\\]+")


def split_words(line: bytes) -> list[bytes] | None:
    """Return the words of ``line``; None if a quote is not closed, or not followed by a blank or the end."""
    if _SPECIAL.search(line) is None:
        return line.split()
    words: list[bytes] = []
    at, end = 0, len(line)
    while True:
        while at < end and line[at] in _BLANK:
            at += 1
        if at >= end:
            return words
        word: list[bytes] = []
        while at < end and line[at] not in _END:
            char = line[at : at + 1]
            if char == b'"':
                at = _double(line, at + 1, word)
            elif char == b"'":
                at = _single(line, at + 1, word)
            else:
                plain = _PLAIN.match(line, at)
                assert plain is not None
                word.append(plain.group())
                at = plain.end()
                continue
            if at < 0 or (at < end and line[at] not in _BLANK):
                return None
        words.append(b"".join(word))


def _double(line: bytes, at: int, word: list[bytes]) -> int:
    """Append the double-quoted text at ``at`` to ``word``; return its end, -1 if the quote is not closed."""
    while at < len(line):
        char = line[at : at + 1]
        if char == b'"':
            return at + 1
        if char == b"\\" and at + 1 < len(line):
            code = _HEX.match(line, at + 1)
            if code is not None:
                word.append(bytes([int(code.group(1), 16)]))
                at = code.end()
            else:
                escaped = line[at + 1 : at + 2]
                word.append(_ESCAPES.get(escaped, escaped))
                at += 2
            continue
        run = _IN_DOUBLE.match(line, at)
        word.append(run.group() if run is not None else char)
        at = run.end() if run is not None else at + 1
    return -1


def _single(line: bytes, at: int, word: list[bytes]) -> int:
    """Append the single-quoted text at ``at`` to ``word``; return its end, -1 if the quote is not closed."""
    while at < len(line):
        char = line[at : at + 1]
        if char == b"'":
            return at + 1
        if line[at : at + 2] == b"\\'":
            word.append(b"'")
            at += 2
            continue
        run = _IN_SINGLE.match(line, at)
        word.append(run.group() if run is not None else char)
        at = run.end() if run is not None else at + 1
    return -1


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
