"""The README's examples run as they stand, and do what the text says."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

README = Path(__file__).resolve().parent.parent / "README.md"


def python_blocks() -> dict[str, str]:
    """Return the code blocks by the bold words that introduce them; the one before them is the session."""
    text = README.read_text()
    blocks = re.findall(r"(?:\*\*([A-Z][a-z ]+)\*\*:[^`]*?(?:`[^`\n]+`[^`]*?)*|)\n```python\n(.*?)```", text, re.DOTALL)
    return {title or "Session": code for title, code in blocks}


def test_there_is_an_example_for_each_way_of_reading_and_writing() -> None:
    assert list(python_blocks()) == ["Session", "Batch write", "Batch read", "Streaming read", "Streaming write"]


def test_an_example_is_about_ten_lines() -> None:
    assert all(len(code.strip().splitlines()) <= 14 for code in python_blocks().values())
