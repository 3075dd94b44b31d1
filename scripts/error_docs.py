"""Write the error conditions into the reference: the connector's, and the command line's own.

Run `python scripts/error_docs.py` after changing a condition. A test fails if a page differs.
"""

from __future__ import annotations

import re

from pystreams import errors as command_line
from scripts.generated import ROOT, Part, anchor
from spark_streams.errors import CONDITIONS
from streamwire.errors import Condition

_REFERENCE = ROOT / "docs" / "reference"
PART = Part(_REFERENCE / "errors.md", r"<!-- conditions: .*? -->\n", "<!-- end of conditions -->")
OF_COMMAND_LINE = Part(_REFERENCE / "command-line.md", r"<!-- conditions: .*? -->\n", "<!-- end of conditions -->")


def _code(found: re.Match[str]) -> str:
    """Return a quoted text or a parameter as code, with parameters in angle brackets."""
    return "`" + re.sub(r"\{(\w+)\}", r"<\1>", found[1] or found[0]) + "`"


def paragraph(name: str, condition: Condition) -> str:
    """Return a condition, its text, and its advice in italics. Parameters and quoted words are code."""
    text, advice = (
        re.sub(r"(?<!\w)'([^']+)'(?!\w)|\{(\w+)\}", _code, part).replace("``", "` `")
        for part in (condition.text, condition.advice)
    )
    return f"**`{name}`** {text} *{advice}*\n"


def written() -> str:
    """Return the current conditions by exception, sorted by name."""
    groups: dict[str, list[str]] = {}
    for name, condition in sorted(CONDITIONS.items()):
        groups.setdefault(condition.error.__name__, []).append(f"\n{anchor(name)}{paragraph(name, condition)}")
    return "".join(f"\n## {error}\n{''.join(rows)}" for error, rows in sorted(groups.items())) + "\n"


def written_of_command_line() -> str:
    """Return the current errors of the command line by exit status."""
    groups: dict[int, list[str]] = {}
    for name, condition in sorted(command_line.FAILURES.items()):
        groups.setdefault(int(condition.status), []).append(f"\n{paragraph(name, condition)}")
    return "".join(f"\n### Exit status {status}\n{''.join(rows)}" for status, rows in sorted(groups.items())) + "\n"


if __name__ == "__main__":
    PART.write(written())
    OF_COMMAND_LINE.write(written_of_command_line())
