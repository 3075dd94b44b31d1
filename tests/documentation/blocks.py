"""The code blocks of a page, and how each is tested.

A block runs unless the comment before it gives a reason why it cannot: ``<!-- not run: REASON -->``. A block of text
with the title "Output" is the output of the block before it. A block whose title is a file name is that file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT

#: Languages that run, each in its way (tests/documentation/running.py).
RUN = {"python", "sql", "console", "redis", "sh"}
#: Languages of settings, which are parsed.
PARSED = {"toml", "yaml", "ini", "json"}
#: Languages that are not run.
SHOWN = {"text"}

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w-]*)(?P<title>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_TITLE = re.compile(r'title="([\w.-]+\.py)"')
_MARKER = re.compile(r"<!-- not run: ((?:(?!-->).)+) -->\s*\Z", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of code. ``excuse``: why it does not run; ``output``: its output according to the page; ``file``: the
    name of the file that it shows, in the reader's directory, or an empty text.
    """

    page: str
    line: int
    language: str
    text: str
    excuse: str = ""
    output: str | None = None
    file: str = ""

    @property
    def location(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Return all pages: those of the site, and the README."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page: Path) -> list[Block]:
    """Return the page's blocks in order."""
    text = page.read_text()
    name = str(page.relative_to(ROOT))
    found: list[Block] = []
    for fence in _FENCE.finditer(text):
        code = re.sub(f"^{fence['indent']}", "", fence["text"], flags=re.MULTILINE)
        marker = _MARKER.search(text, 0, fence.start())
        if 'title="Output"' in fence["title"]:
            before = found.pop()
            found.append(Block(before.page, before.line, before.language, before.text, before.excuse, output=code))
            continue
        line = text.count("\n", 0, fence.start()) + 1
        excuse = " ".join(marker[1].split()) if marker else ""
        file = _TITLE.search(fence["title"])
        found.append(Block(name, line, fence["language"], code, excuse, file=file[1] if file else ""))
    return found
