"""Write the table of docs/errors.md from the connector's table of error conditions.

Run `python scripts/error_docs.py` after changing one. A test fails where the two differ.
"""

from __future__ import annotations

import re
from pathlib import Path

from spark_streams.errors import CONDITIONS, Condition

PAGE = Path(__file__).resolve().parent.parent / "docs" / "errors.md"
PLACE = re.compile(r"(<!-- conditions: .*? -->\n)(.*?)(<!-- end of conditions -->)", re.DOTALL)
HEAD = "| condition | exception | what it says | what to do |\n|---|---|---|---|\n"


def row(name: str, condition: Condition) -> str:
    """Return a condition's line of the table."""
    text, advice = (
        re.sub(r"'?\{(\w+)\}'?", r"*\1*", part).replace("|", r"\|") for part in (condition.text, condition.advice)
    )
    return f"| `{name}` | {condition.error.__name__} | {text} | {advice} |\n"


def updated(page: str) -> str:
    """Return the page with today's table, in the order of the names."""
    rows = "".join(row(name, CONDITIONS[name]) for name in sorted(CONDITIONS))
    text, places = PLACE.subn(lambda found: f"{found[1]}{HEAD}{rows}{found[3]}", page)
    if places != 1:
        raise SystemExit(f"{PAGE} has {places} places for the conditions: {PLACE.pattern}")
    return text


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
