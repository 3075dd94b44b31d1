"""The length of paragraphs and table cells is limited."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests import ROOT
from tests.documentation.blocks import pages

#: Five lines of a paragraph and three of a cell, in characters, without code blocks and link targets.
_PARAGRAPH, _CELL = 600, 330


def _longer(page: Path) -> Iterator[str]:
    """Yield the start of each paragraph and cell of ``page`` that exceeds its limit."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\([^)]*\)|<a id=[^>]*></a>", "", text)
    for line in text.splitlines():
        if line.startswith("|"):
            yield from (cell[:60] for cell in re.split(r"(?<!\\)\|", line) if len(cell) > _CELL)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", text):
        if not paragraph.lstrip("\n").startswith(("|", "    ")) and len(" ".join(paragraph.split())) > _PARAGRAPH:
            yield paragraph.strip()[:60]


def test_paragraphs_and_cells_are_short() -> None:
    """A paragraph has at most five lines and a table cell at most three."""
    found = {str(page.relative_to(ROOT)): list(_longer(page)) for page in pages()}
    assert {name: texts for name, texts in found.items() if texts} == {}
