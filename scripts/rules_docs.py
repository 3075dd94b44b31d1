"""Write the rules that an ACL user needs into docs/reference/permissions.md, from the table of commands.

Run `python scripts/rules_docs.py` after changing a rule. A test fails if the page differs.
"""

from __future__ import annotations

import textwrap

from scripts.generated import ROOT, Part
from streamclient.commands import RULES

PART = Part(ROOT / "docs" / "reference" / "permissions.md", r"<!-- rules: .*? -->\n```text\n", r"```\n")


def written() -> str:
    """Return the current rules, in the wording of errors. A ``*`` marks optional rules."""
    indent = "    "
    lines: list[str] = []
    for need, rules in RULES.items():
        lines.append(need.replace(" (not needed)", "*"))
        lines += textwrap.wrap(rules, 120, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    PART.write(written())
