"""Write docs/errors.md from the connector's table of error conditions.

Run `python scripts/error_docs.py` after changing one. A test fails where the two differ.
"""

from __future__ import annotations

import re
from pathlib import Path

from spark_streams.errors import CONDITIONS, Condition

PAGE = Path(__file__).resolve().parent.parent / "docs" / "errors.md"
HEAD = """# Error conditions

Every error of the connector that a user can act on has a condition. Its message begins with the condition in brackets,
says what happened and where, and ends with what to do. In Python, `error.condition` is the condition and
`error.parameters` are the values in its message. Spark puts the message into the exception that it raises. No message
contains a password: addresses are shown without one.

`scripts/error_docs.py` generates this page from `spark_streams/errors.py`.

| condition | exception | what it says | what to do |
|---|---|---|---|
"""


def row(name: str, condition: Condition) -> str:
    """Return a condition's line of the table."""
    text, advice = (
        re.sub(r"'?\{(\w+)\}'?", r"*\1*", part).replace("|", r"\|") for part in (condition.text, condition.advice)
    )
    return f"| `{name}` | {condition.error.__name__} | {text} | {advice} |\n"


def page() -> str:
    """Return the whole page, in the order of the names."""
    return HEAD + "".join(row(name, CONDITIONS[name]) for name in sorted(CONDITIONS))


if __name__ == "__main__":
    PAGE.write_text(page())
