"""Write the README's table of options from the connector's own: `python scripts/readme_options.py` after changing one.

A test fails where the two differ.
"""

from __future__ import annotations

import re
from pathlib import Path

from spark_streams.config.options import TABLE, Option

README = Path(__file__).resolve().parent.parent / "README.md"
SECTION = re.compile(r"(<!-- options: .*? -->\n)(.*?)(<!-- end of options -->)", re.DOTALL)


def row(option: Option) -> str:
    """Return an option's line of the table."""
    default = f"`{option.default}`" if re.fullmatch(r"[\w.]+", option.default) else option.default
    return f"| `{option.name}` | {', '.join(option.scopes)} | {default} | {option.meaning} |"


def table() -> str:
    """Return the whole table, in the connector's order."""
    lines = ["| option | for | default | meaning |", "|---|---|---|---|", *map(row, TABLE)]
    return "".join(f"{line}\n" for line in lines)


def updated(readme: str) -> str:
    """Return a README with today's table."""
    text, places = SECTION.subn(lambda found: found[1] + table() + found[3], readme)
    if places != 1:
        raise SystemExit(f"{README} has {places} places for the options: {SECTION.pattern}")
    return text


if __name__ == "__main__":
    README.write_text(updated(README.read_text()))
