"""Write the connector's error conditions into the reference.

Run `python scripts/error_docs.py` after changing a condition. A test fails if the page differs.
"""

from __future__ import annotations

import re

from scripts.generated import ROOT, Part, anchor
from spark_streams.errors import CONDITIONS
from streamwire.errors import Condition

PART = Part(ROOT / "docs" / "reference" / "errors.md", r"<!-- conditions: .*? -->\n", "<!-- end of conditions -->")


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


if __name__ == "__main__":
    PART.write(written())
