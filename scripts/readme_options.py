"""Write the README's tables of options from the connector's own: `python scripts/readme_options.py` after changing one.

A test fails where the two differ.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from spark_streams.config.option import Option, options_of
from spark_streams.config.options import SECTIONS

README = Path(__file__).resolve().parent.parent / "README.md"
PLACE = re.compile(r"(<!-- options: .*? -->\n)(.*?)(<!-- end of options -->)", re.DOTALL)


def row(option: Option) -> str:
    """Return an option's line of a table."""
    default = option.shown_default()
    if default and not option.default_text:
        default = f"`{default}`"
    names = ", ".join(f"`{name}`" for name in option.names)
    return f"| {names} | {default} | {option.meaning} |\n"


def table(section: type[Any]) -> str:
    """Return a section's heading and table."""
    heading = (section.__doc__ or "").partition("\n")[0].removesuffix(".")
    rows = "".join(row(option) for option in options_of(section).values())
    return f"\n**{heading}**\n\n| option | default | meaning |\n|---|---|---|\n{rows}"


def updated(readme: str) -> str:
    """Return a README with today's tables."""
    tables = "".join(map(table, SECTIONS))
    text, places = PLACE.subn(lambda found: f"{found[1]}{tables}\n{found[3]}", readme)
    if places != 1:
        raise SystemExit(f"{README} has {places} places for the options: {PLACE.pattern}")
    return text


if __name__ == "__main__":
    README.write_text(updated(README.read_text()))
