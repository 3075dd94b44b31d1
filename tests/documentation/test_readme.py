"""The README's examples run unchanged and do what the text says; `make test` runs them as those of any other page."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import overview_picture
from tests import ROOT
from tests.suite.long import long_only

README = ROOT / "README.md"

# Runs the examples one after another, as a reader would paste them, then prints their results and a time without zone.
EPILOGUE = """
import json
spark.sql("select '2013-07-04 12:30:00' at").write.format("pystreams").mode("append").save("times")
times = spark.read.format("pystreams").schema("at timestamp").load("times")
print("RESULT", json.dumps({
    "weather": [row.asDict() for row in weather.orderBy("station").collect()],
    "time": times.selectExpr("unix_timestamp(at)").first()[0],
    "fog": [row.fields for row in spark.read.format("pystreams").load("fog").collect()],
}))
"""


def examples() -> dict[str, str]:
    """Return the Python blocks by the bold word before them."""
    found: dict[str, str] = {}
    before, *blocks = README.read_text().split("```python\n")
    for block in blocks:
        title = re.findall(r"^\*\*([A-Z][a-z ]+)\*\*:", before, re.MULTILINE)[-1]
        found[title], before = block.split("```", 1)
    return found


def test_the_examples_are_few_and_short() -> None:
    """A session, a batch and a query, each of at most eight lines."""
    assert list(examples()) == ["Session", "Batch", "Query"]
    assert all(len(code.splitlines()) <= 8 for code in examples().values())


@long_only
@pytest.mark.spark
@pytest.mark.slow
def test_the_examples_run_as_they_stand_on_the_embedded_engine(tmp_path: Path) -> None:
    """The examples work if they are pasted one after another into a Python that has only the installed package.

    A time is in the zone of the JVM, if the session has none.
    """
    script = tmp_path / "readme.py"
    script.write_text("\n".join(examples().values()) + EPILOGUE)
    environment = {key: value for key, value in os.environ.items() if key not in ("PYSTREAMS_URL", "PYTHONPATH")}
    result = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**environment, "SPARK_CONF_DIR": str(ROOT / "conf"), "TMPDIR": str(tmp_path), "TZ": "America/New_York"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("RESULT "))
    left = json.loads(line.removeprefix("RESULT "))
    assert [(row["station"], row["visibility"]) for row in left["weather"]] == [
        ("ewr", 10.0),
        ("jfk", 10.0),
        ("lga", 0.25),
    ]
    assert left["time"] == 1372941000 + 4 * 3600
    assert left["fog"] == [{"station": "lga", "visibility": "0.25"}]


def test_every_file_and_directory_that_the_readme_names_exists() -> None:
    text = README.read_text()
    named = re.findall(
        r"`((?:[a-z_]+/)+[a-z_.]*|[a-z_]+\.py)`|(?:\]\(|src(?:set)?=\")([\w./-]+?)(?:#[\w-]*)?[)\"]", text
    )
    missing = [name for names in named for name in names if name and not (ROOT / name).exists() and name != "site/"]
    assert missing == []


def test_every_heading_that_the_readme_jumps_to_exists() -> None:
    links = re.findall(r"\]\(([\w./-]+)#([\w-]+)\)", README.read_text())
    assert links
    for page, anchor in links:
        headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w-]", "", each.lower().replace(" ", "-")) for each in headings}, (page, anchor)


@pytest.mark.parametrize("theme", overview_picture.THEMES)
def test_the_picture_is_current(theme: str) -> None:
    """The picture of the way of the data equals the output of `python scripts/overview_picture.py`."""
    assert (overview_picture.IMAGES / f"overview-{theme}.svg").read_text() == overview_picture.picture(theme)
