r"""Names and field values: bytes on the server, text on a terminal, and lossless in JSON; and globs of names.

A name of a stream, group, consumer or field may contain any bytes. On the command line the bytes arrive as the shell
passes them (`$'\xff'`). A terminal never receives control characters, so an entry's contents cannot control it. Globs
of Redis (`*`, `?`, `[a-c]`, `[^a]`, and `\` before a literal character) are matched by this process.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any


def from_shell(text: str) -> bytes:
    """Return the bytes of a command-line argument."""
    return text.encode("utf-8", "surrogateescape")


def to_shell(value: bytes) -> str:
    """Return the reverse of `from_shell`."""
    return value.decode("utf-8", "surrogateescape")


def shown(value: bytes) -> str:
    """Return the value as text, with escapes for bytes that are not UTF-8 and for unprintable characters."""
    return printable(value.decode("utf-8", "backslashreplace"))


def printable(text: str, keep: str = "") -> str:
    """Return the text with escapes for unprintable characters, except those in `keep`."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode() for each in text
    )


def as_json(value: bytes) -> Any:
    """Return the value for JSON: a string, or `{"base64": ...}` if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def from_cell(text: str) -> bytes:
    """Return the bytes of a CSV cell, which contains text or, for bytes that are not UTF-8, the JSON of `as_json`.

    Raises ValueError.
    """
    return from_json(json.loads(text)) if text.startswith('{"base64": ') else from_shell(text)


def from_json(value: Any) -> bytes:
    """Return the bytes for a result of `as_json`, or for true or false. Raises ValueError for other values.

    Numbers must have been parsed as strings.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, dict) and set(value) == {"base64"} and type(value["base64"]) is str:
        return base64.b64decode(value["base64"], validate=True)
    if isinstance(value, bool):
        return b"true" if value else b"false"
    raise ValueError('a field\'s value is a string, a number, true, false or {"base64": ...}')


_PART = re.compile(rb"\\(.)|\[(\^?)((?:\\.|[^\]])*)\]|(\*)|(\?)|(.)", re.DOTALL)


def is_glob(word: str) -> bool:
    """Return whether the argument `word` contains characters of a glob, including escaped characters."""
    return any(each in word for each in "*?[\\")


def glob_pattern(glob: bytes) -> re.Pattern[bytes]:
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
