"""Each package describes its subject in the docstring of its `__init__`."""

from __future__ import annotations

import ast
from pathlib import Path

from tests import ROOT

_TOPS = ("streamwire", "streamclient", "engine", "spark_streams", "pystreams", "jobs", "benchmarks", "scripts", "tests")


def files() -> list[Path]:
    """Return all Python files of the checkout."""
    found = [path for top in _TOPS for path in (ROOT / top).rglob("*.py") if "node_modules" not in path.parts]
    assert len(found) > 500
    return found


def docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def test_every_package_describes_itself() -> None:
    """Each `__init__` has a docstring."""
    packages = [path for path in files() if path.name == "__init__.py"]
    assert [str(path.relative_to(ROOT)) for path in packages if not docstring(path)] == []
