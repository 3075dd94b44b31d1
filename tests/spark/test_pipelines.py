"""Declarative pipelines (`spark-pipelines`, Spark 4.1) without a server: refused, unless the engine keeps its data."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT
from tests.suite.jvm import QUICK
from tests.suite.long import long_only

pytestmark = [pytest.mark.spark, pytest.mark.slow, long_only]

PATIENCE = 400.0
FLOW = """
    from pyspark import pipelines as dp
    from pyspark.sql import SparkSession

    dp.create_sink("out", "pystreams", {options!r} | {{"stream": "numbers"}})

    @dp.append_flow(target="out")
    def numbers():
        return SparkSession.active().readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
"""


@pytest.fixture
def project() -> Iterator[Path]:
    """A pipeline's directory, with a name that leaves room for a socket's path below it."""
    with tempfile.TemporaryDirectory(prefix="ps-") as made:
        yield Path(made)


def run_pipeline(project: Path, **options: str) -> str:
    """Run the pipeline for one batch after the other until it fails, or for as long as the test gives it."""
    (project / "spark-pipeline.yml").write_text(
        f"name: numbers\nstorage: file://{project}/storage\nlibraries:\n  - glob:\n      include: flows/**\n"
    )
    (project / "flows").mkdir(exist_ok=True)
    (project / "flows" / "numbers.py").write_text(textwrap.dedent(FLOW.format(options=options)))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSTREAMS_")}
    environment |= {
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "TMPDIR": str(project),
        "JDK_JAVA_OPTIONS": QUICK,
    }
    done = subprocess.run(
        [str(Path(sys.executable).with_name("spark-pipelines")), "run"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode != 0
    return done.stdout + done.stderr


def test_a_pipeline_without_a_server_is_refused(project: Path) -> None:
    """Its rows would be gone with the pipeline's process, so it fails, and the error names the three remedies."""
    said = run_pipeline(project)
    assert "[EMBEDDED_NOT_KEPT] No server is named, and a declarative pipeline (spark-pipelines) cannot use" in said
    assert "'url'" in said
    assert "PYSTREAMS_URL" in said
    assert "'embedded.dir'" in said
