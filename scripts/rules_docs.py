"""Write the rules that an ACL user needs into docs/connecting.md, from the connector's own list of them.

Run `python scripts/rules_docs.py` after changing one. A test fails where the two differ.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from spark_streams.config.permissions import RULES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "connecting.md"
PLACE = re.compile(r"(<!-- rules: .*? -->\n```text\n)(.*?)(```\n)", re.DOTALL)


def updated(page: str) -> str:
    """Return the page with today's rules, in the words that errors show too."""
    indent = "    "
    lines: list[str] = []
    for what, rules in RULES.items():
        lines.append(what)
        lines += textwrap.wrap(rules, 120, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    block = "".join(f"{line}\n" for line in lines)
    text, places = PLACE.subn(lambda found: f"{found[1]}{block}{found[3]}", page)
    if places != 1:
        raise SystemExit(f"{PAGE} has {places} places for the rules: {PLACE.pattern}")
    return text


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
