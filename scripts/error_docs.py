"""Write the tables of error conditions into the reference: the connector's, and the command line's own.

Run `python scripts/error_docs.py` after changing one. A test fails where the two differ.
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
HEAD = "| condition | exception | what it says | what to do |\n|---|---|---|---|\n"


def row(name: str, condition: Condition) -> str:
    """Return a condition's line of the table."""
    text, advice = (
        re.sub(r"'?\{(\w+)\}'?", r"*\1*", part).replace("|", r"\|") for part in (condition.text, condition.advice)
    )
    return f"| {anchor(name)}`{name}` | {condition.error.__name__} | {text} | {advice} |\n"


def written() -> str:
    """Return today's table, in the order of the names."""
    return HEAD + "".join(row(name, CONDITIONS[name]) for name in sorted(CONDITIONS))


def written_of_command_line() -> str:
    """Return today's table of the command line's own errors, with their exit statuses."""
    lines = [
        row(name, condition).replace(f"| {condition.error.__name__} |", f"| {int(condition.status)} |")
        for name, condition in sorted(command_line.FAILURES.items())
    ]
    return "| condition | exit status | what it says | what to do |\n|---|---|---|---|\n" + "".join(lines)


if __name__ == "__main__":
    PART.write(written())
    OF_COMMAND_LINE.write(written_of_command_line())
