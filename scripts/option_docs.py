"""Write the tables of options in docs/reference/options.md from the connector's own.

Run `python scripts/option_docs.py` after changing one. A test fails where the two differ.
"""

from __future__ import annotations

from typing import Any

from scripts.generated import ROOT, Part, anchor
from spark_streams.config.options import SECTIONS
from streamclient.config.option import Option, options_of

PART = Part(ROOT / "docs" / "reference" / "options.md", r"<!-- options: .*? -->\n", "<!-- end of options -->")


def row(option: Option) -> str:
    """Return an option's line of a table."""
    default = option.shown_default()
    if default and not option.default_text:
        default = f"`{default}`"
    names = ", ".join(f"{anchor(name)}`{name}`" for name in option.names)
    return f"| {names} | {default} | {option.meaning} |\n"


def table(section: type[Any]) -> str:
    """Return a section's heading and table."""
    heading = (section.__doc__ or "").partition("\n")[0].removesuffix(".")
    rows = "".join(row(option) for option in options_of(section).values())
    return f"\n## {heading}\n\n| option | default | meaning |\n|---|---|---|\n{rows}"


def written() -> str:
    """Return today's tables."""
    return "".join(map(table, SECTIONS)) + "\n"


if __name__ == "__main__":
    PART.write(written())
