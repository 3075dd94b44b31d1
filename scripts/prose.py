"""Find phrases that are hard to read in texts for users: `python scripts/prose.py`.

Reads the string literals of the product: help texts, options, directives, HELP of metrics, errors and log lines. Also
reads the docstrings of verbs, jobs and commands, the texts of the dashboard, README.md and the pages below docs/.
Comments and other docstrings are not read. `PATTERNS` has advice for each phrase.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.generated import ROOT

PRODUCT = ("engine", "spark_streams", "streamclient", "streamwire", "pystreams", "jobs")
#: Files with error texts in the wording of Redis.
EXCLUDED = ("engine/text/messages.py",)

#: Phrases with advice.
PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (r"\b[Ww]here (?:there|they|nobody|none|one) (?:is|are|has|have|was|were)\b", "conditions use 'if' or 'when'"),
        (r"\b(?:[Ww]hoever|[Ww]homever|[Nn]obody|[Ss]omebody|[Ee]verybody)\b", "subjects are things or the reader"),
        (r"\b(?:[Aa]t most|[Aa]fter|[Ff]or|[Ss]how|[Kk]eep) so (?:many|much|long|few)\b", "quantities are nouns"),
        (r"^What (?:is|was|has|does|goes|a|the|an) [a-z]+\b(?!.*\?)", "no relative clause as a subject"),
        (r"\b(?:[Ss]ince when|[Bb]y what)\b", "times are nouns with units"),
        (r"\bthat (?:is|are) none\b|\bis no (?:number|object|TOML|word)\b", "say absence directly: 'is not a ...'"),
        (r"\b(?:anew|in vain|mend(?:s|ed|ing)?|thereby|whereby|for ever|by turns|of no account)\b", "a modern word"),
        (r"\bbeside (?:it|them|the|a)\b", "'next to'"),
        (r"\b(?:server|engine|client|replica|exporter) (?:speaks|forgets|hears|believes|tells)\b", "software reports"),
    )
)
_WORDS = re.compile(r"[A-Za-z]{2,} [A-Za-z]{2,}")
_JS_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"|`((?:[^`\\]|\\.)*)`')


def _docstrings(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.Constant]]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and body:
            first = body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield node, first.value


def texts_of_python(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string literal that contains words, and of docstrings of verbs, jobs and commands."""
    tree = ast.parse(path.read_text())
    hidden = set()
    for owner, docstring in _docstrings(tree):
        decorators = [ast.unparse(each) for each in getattr(owner, "decorator_list", ())]
        if not any(
            each.startswith(("verb(", "job(", "command(", "key_command(", "stream_command(")) for each in decorators
        ):
            hidden.add(id(docstring))
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in hidden else None
        if isinstance(node, ast.Constant) and isinstance(text, str) and _WORDS.search(text):
            yield node.lineno, text


def texts_of_script(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string in a page's script."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.lstrip().startswith("//"):
            for found in _JS_STRING.finditer(line):
                yield number, found[1] or found[2] or ""


def texts_of_page(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page, without fenced code."""
    fenced = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        if not fenced:
            yield number, line


def texts(root: Path = ROOT) -> Iterator[tuple[Path, int, str]]:
    """Yield path, line and text of everything that users see."""
    for top in PRODUCT:
        for path in sorted((root / top).rglob("*.py")):
            if not str(path.relative_to(root)).startswith(EXCLUDED):
                yield from ((path, *found) for found in texts_of_python(path))
    for path in sorted((root / "pystreams" / "dashboard" / "static" / "js").rglob("*.js")):
        yield from ((path, *found) for found in texts_of_script(path))
    for path in (root / "README.md", *sorted((root / "docs").rglob("*.md"))):
        yield from ((path, *found) for found in texts_of_page(path))


def problems(root: Path = ROOT) -> list[str]:
    """Return a line with file, line number and advice for each phrase that is found."""
    return [
        f"{path.relative_to(root)}:{number}: '{found[0]}': {advice}"
        for path, number, text in texts(root)
        for pattern, advice in PATTERNS
        if (found := pattern.search(text))
    ]


def main() -> int:
    """Print the problems and return 1 if there are any."""
    found = problems()
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
