"""Write the table of docs/errors.md from the connector's table of error conditions.

Run `python scripts/error_docs.py` after changing one. A test fails where the two differ.
"""

from __future__ import annotations

import re

from scripts.generated import ROOT, Part
from spark_streams.errors import CONDITIONS, Condition

PART = Part(ROOT / "docs" / "errors.md", r"<!-- conditions: .*? -->\n", "<!-- end of conditions -->")
HEAD = "| condition | exception | what it says | what to do |\n|---|---|---|---|\n"


def row(name: str, condition: Condition) -> str:
    """Return a condition's line of the table."""
    text, advice = (
        re.sub(r"'?\{(\w+)\}'?", r"*\1*", part).replace("|", r"\|") for part in (condition.text, condition.advice)
    )
    return f"| `{name}` | {condition.error.__name__} | {text} | {advice} |\n"


def written() -> str:
    """Return today's table, in the order of the names."""
    return HEAD + "".join(row(name, CONDITIONS[name]) for name in sorted(CONDITIONS))


if __name__ == "__main__":
    PART.write(written())
