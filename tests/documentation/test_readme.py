"""The README's examples run unchanged and do what the text says."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

README = ROOT / "README.md"

# Runs the examples one after another, as a reader would paste them, then prints their results.
EPILOGUE = """
import json
print("RESULT", json.dumps({
    "weather": [row.asDict() for row in weather.orderBy("station").collect()],
    "visibility": [row.asDict() for row in spark.table("visibility").orderBy("station").collect()],
    "fog": [row.fields for row in spark.read.format("pystreams").option("stream", "fog").load().collect()],
}))
"""


def examples() -> dict[str, str]:
    """Return the Python blocks by the bold words before them; the first block, without such words,
    creates the session.
    """
    found: dict[str, str] = {}
    before, *blocks = README.read_text().split("```python\n")
    for block in blocks:
        titles = re.findall(r"^\*\*([A-Z][a-z ]+)\*\*:", before, re.MULTILINE)
        found[titles[-1] if titles else "Session"], before = block.split("```", 1)
    return found


def test_there_is_an_example_for_each_way_of_reading_and_writing() -> None:
    assert list(examples()) == ["Session", "Batch write", "Batch read", "Streaming read", "Streaming write"]


def test_an_example_has_at_most_twelve_lines() -> None:
    assert all(len(code.splitlines()) <= 12 for code in examples().values())


@pytest.mark.spark
@pytest.mark.slow
def test_the_examples_run_as_they_stand_on_the_embedded_engine(tmp_path: Path) -> None:
    """The examples work if they are pasted one after another into a Python that has only the installed package."""
    script = tmp_path / "readme.py"
    script.write_text("\n".join(examples().values()) + EPILOGUE)
    environment = {key: value for key, value in os.environ.items() if key not in ("PYSTREAMS_URL", "PYTHONPATH")}
    result = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**environment, "SPARK_CONF_DIR": str(ROOT / "conf"), "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("RESULT "))
    left = json.loads(line.removeprefix("RESULT "))
    assert [(row["station"], row["temperature"], row["visibility"]) for row in left["weather"]] == [
        ("ewr", 39.02, 10.0),
        ("jfk", 39.02, 10.0),
        ("lga", None, 0.25),
    ]
    assert [(row["station"], row["visibility"]) for row in left["visibility"]] == [
        ("ewr", 10.0),
        ("jfk", 10.0),
        ("lga", 0.25),
    ]
    assert left["fog"] == [{"station": "lga", "visibility": "0.25"}]


def test_every_file_and_directory_that_the_readme_names_exists() -> None:
    text = README.read_text()
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_.]*|[a-z_]+\.py)`|\]\(([\w./-]+?)(?:#[\w-]*)?\)", text)
    missing = [name for names in named for name in names if name and not (ROOT / name).exists() and name != "site/"]
    assert missing == []


def test_every_heading_that_the_readme_jumps_to_exists() -> None:
    links = re.findall(r"\]\(([\w./-]+)#([\w-]+)\)", README.read_text())
    assert links
    for page, anchor in links:
        headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w-]", "", each.lower().replace(" ", "-")) for each in headings}, (page, anchor)
