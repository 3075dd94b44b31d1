"""A folder is a room: few files and a docstring that says what it owns. A long file says why it is one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests import ROOT

_TOPS = ("engine", "spark_streams", "pystreams", "jobs", "benchmarks", "scripts", "tests")
#: In lines; in files, of which `__init__` is one.
LONG, CROWDED = 400, 17


def files() -> list[Path]:
    """All Python files of the checkout."""
    found = [path for top in _TOPS for path in (ROOT / top).rglob("*.py") if "node_modules" not in path.parts]
    assert len(found) > 900
    return found


def docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def test_a_long_file_says_why_it_is_one() -> None:
    """More than 400 lines need a reason in the module's docstring, with that number in it."""
    long = [path for path in files() if path.read_text().count("\n") > LONG]
    unexplained = [path for path in long if not re.search(r"(400|four\s+hundred)\s+lines", docstring(path))]
    assert [str(path.relative_to(ROOT)) for path in unexplained] == []


@pytest.mark.parametrize("top", _TOPS)
def test_a_room_has_few_files(top: str) -> None:
    """A folder with more files than one can keep in mind is two rooms."""
    counts: dict[str, int] = {}
    for path in (ROOT / top).rglob("*.py"):
        room = str(path.parent.relative_to(ROOT))
        counts[room] = counts.get(room, 0) + 1
    assert {room: count for room, count in counts.items() if count > CROWDED} == {}


def test_a_room_says_what_it_owns() -> None:
    """Each `__init__` has a docstring."""
    rooms = [path for path in files() if path.name == "__init__.py"]
    assert [str(path.relative_to(ROOT)) for path in rooms if not docstring(path)] == []
