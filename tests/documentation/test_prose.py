"""scripts/prose.py, which `make lint` runs on this checkout, finds the phrases in texts for users."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import prose


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [
        ("engine/core.py", 'LOG = "nobody has asked for it"', 1),
        ("jobs/a.py", '\nhelp("Stop after so many samples")', 2),
        ("jobs/b.py", '@job("b")\ndef b():\n    """Show entries where there are none."""', 3),
        ("pystreams/dashboard/static/js/a.js", 'const text = "Count the entries anew";', 1),
        ("docs/a.md", "The lease lies beside the stream.", 1),
    ],
)
def test_a_phrase_is_found_with_its_place(tmp_path: Path, name: str, text: str, number: int) -> None:
    """A phrase is reported with file and line in strings of the product, the help of jobs, scripts
    of pages, and pages.
    """
    (tmp_path / "README.md").write_text("A README.\n")
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(text)
    (problem,) = prose.problems(tmp_path)
    assert problem.startswith(f"{name}:{number}: ")


def test_comments_docstrings_and_fenced_code_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("```\nnobody is left\n```\n")
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "core.py").write_text('"""Nobody is left."""\nx = 1  # nobody is left\n')
    assert prose.problems(tmp_path) == []
