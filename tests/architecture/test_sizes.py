"""Long functions, and classes with many mutable attributes, have a comment that says why they are not divided."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests import ROOT
from tests.architecture.test_purity import TOPS

_LINES, _ATTRIBUTES = 60, 12
_REASON = re.compile(r"# A single (?:class|function), because")


def _changed(node: ast.ClassDef) -> set[str]:
    """Return the attributes of `self` that methods other than `__init__` assign."""
    found: set[str] = set()
    for method in node.body:
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name != "__init__":
            for each in ast.walk(method):
                targets = each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)]
                for target in (part for assigned in targets if assigned is not None for part in ast.walk(assigned)):
                    if isinstance(target, ast.Attribute) and getattr(target.value, "id", None) == "self":
                        found.add(target.attr)
    return found


def _large() -> Iterator[tuple[str, str]]:
    """Yield the name and source of each long function and of each class with many mutable attributes."""
    for top in (*TOPS, "jobs"):
        for path in sorted((ROOT / top).rglob("*.py")):
            text = path.read_text()
            for node in ast.walk(ast.parse(text)):
                is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
                if (is_function and (node.end_lineno or 0) - node.lineno >= _LINES) or (
                    isinstance(node, ast.ClassDef) and len(_changed(node)) > _ATTRIBUTES
                ):
                    yield f"{path.relative_to(ROOT)}: {node.name}", ast.get_source_segment(text, node) or ""


def test_large_functions_and_classes_say_why() -> None:
    """A function above sixty lines, or a class with over twelve mutable attributes, has a comment `# A single ...`."""
    assert [name for name, text in _large() if not _REASON.search(text)] == []
