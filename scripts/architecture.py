"""Draw the packages in docs/design/architecture.md from pyproject.toml: `python scripts/architecture.py`.

Each line names a package or module, with the subject from its docstring. A test fails if the page differs.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

from scripts.generated import ROOT, Part

PART = Part(ROOT / "docs" / "design" / "architecture.md", r"<!-- packages: .*? -->\n", "<!-- end of packages -->")
_NAME_WIDTH = 34


def contracts() -> list[dict[str, Any]]:
    """Return the contracts in pyproject.toml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return found


def layers() -> list[tuple[str, list[list[str]]]]:
    """Return (title, layers) of every contract about layers, from the top. A layer is a list of module names."""
    return [
        (contract["name"], [[name.strip() for name in re.split(r"[|:]", layer)] for layer in contract["layers"]])
        for contract in contracts()
        if contract["type"] == "layers"
    ]


def source_of(module: str) -> Path:
    """Return the file that contains a module's docstring."""
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def summary(module: str) -> str:
    """Return the subject of a module: the title of its docstring, or the explanation of a title of one word."""
    text = ast.get_docstring(ast.parse(source_of(module).read_text())) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence = re.split(r"(?<=\.)\s", paragraph)[0].rstrip(".:")
    title, _, explanation = sentence.partition(": ")
    if explanation and (title.startswith("`") or " " not in re.sub(r"^(?:An?|The) ", "", title)):
        title = explanation
    title = re.split(r": |; | \(|, (?:which|so|with|started|whatever) |,? such as |, as ", title)[0].replace("`", "")
    return title if re.match(r"python |[\w]+\.\w", title) else title[0].upper() + title[1:]


def written() -> str:
    """Return the drawing, with one block per contract and the upper packages first."""
    blocks = []
    for title, rows in layers():
        lines = [title, ""]
        for row in rows:
            for number, module in enumerate(row):
                mark = "|" if number else " "
                lines.append(f"  {mark} {module:<{_NAME_WIDTH}} {summary(module)}".rstrip())
        blocks.append("```text\n" + "\n".join(lines) + "\n```\n")
    return "\n".join(blocks)


if __name__ == "__main__":
    PART.write(written())
