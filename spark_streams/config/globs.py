"""Conversion of regular expressions to globs, for the option `subscribePattern`. Redis can search keys only by glob."""

from __future__ import annotations

import re

from streamwire.errors import InvalidTextError

_PART = re.compile(
    r"\[(?P<set>\^?[\w:.-]+)\]|\\(?P<literal>[^\w\s])|(?P<any>\.)(?P<count>[*+]?)|(?P<plain>[^\\^$.|?*+()\[\]{}])"
)


def of_regex(text: str) -> str:
    """Return the glob that matches the same names as the regular expression, which must match a whole name.

    Raises InvalidTextError if there is no such glob.
    """
    glob, at = "", 0
    inner = text.removeprefix("^").removesuffix("$") if not text.endswith("\\$") else text.removeprefix("^")
    while at < len(inner):
        found = _PART.match(inner, at)
        if found is None or inner[found.end() : found.end() + 1] in (*"*+?{",):
            raise InvalidTextError(
                f"it cannot be converted to a glob because of '{inner[at:]}': set streamPattern to a glob, such as "
                "sensors:*"
            )
        glob += _glob(found)
        at = found.end()
    if not glob:
        raise InvalidTextError("it must not be empty")
    return glob


def _glob(found: re.Match[str]) -> str:
    if found["set"] is not None:
        return f"[{found['set']}]"
    if found["any"] is not None:
        return {"": "?", "*": "*", "+": "?*"}[found["count"]]
    literal = found["literal"] or found["plain"]
    return f"\\{literal}" if literal in "*?[]\\^-" else str(literal)
