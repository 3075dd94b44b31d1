"""Generated part of a page: the text between two comments in the page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def anchor(name: str) -> str:
    """Return an anchor for a row of a table, so that messages and pages can link to it as ``page.md#name``."""
    return f'<a id="{name}"></a>'


@dataclass(frozen=True)
class Part:
    """The text between ``begin`` and ``end``, two regular expressions, on one page."""

    page: Path
    begin: str
    end: str

    def replaced(self, text: str, written: str) -> str:
        """Return the page's ``text`` with ``written`` in this part. Exits if the page does not have exactly one such
        part.
        """
        pattern = re.compile(f"({self.begin})(.*?)({self.end})", re.DOTALL)
        text, count = pattern.subn(lambda found: f"{found[1]}{written}{found[3]}", text)
        if count != 1:
            raise SystemExit(f"{self.page} has {count} parts for the text that this script writes: {pattern.pattern}")
        return text

    def write(self, written: str) -> None:
        """Write ``written`` to this part of the page."""
        self.page.write_text(self.replaced(self.page.read_text(), written))
