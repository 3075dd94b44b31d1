"""Documentation of constants in one form, and docstrings without the markup of another tool."""

from __future__ import annotations

import ast
import itertools
import re

from tests import ROOT
from tests.architecture.test_packages import files

#: A module with strings below the attributes of its class `Options`. Editors show them when they complete an argument.
_FOR_EDITORS = ROOT / "spark_streams" / "builder.py"
_ROLE = re.compile(r":[a-z]+:" + "`")


def _bodies(tree: ast.Module) -> list[list[ast.stmt]]:
    return [body for node in ast.walk(tree) if isinstance(body := getattr(node, "body", None), list)]


def test_constants_are_documented_by_comments() -> None:
    """A constant or attribute is documented by `#:` comments above it, not by a string below it (editors excepted)."""
    found = [
        f"{path.relative_to(ROOT)}:{below.lineno}"
        for path in files()
        if path != _FOR_EDITORS
        for body in _bodies(ast.parse(path.read_text()))
        for above, below in itertools.pairwise(body)
        if isinstance(above, ast.Assign | ast.AnnAssign)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
    ]
    assert found == []


def test_docstrings_have_no_roles() -> None:
    """Names in docstrings and comments are in backticks, without Sphinx roles."""
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _ROLE.search(line)
    ]
    assert found == []
