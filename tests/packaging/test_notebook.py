"""Places where a user has few rights: a notebook whose kernel differs from the Python that Spark would start, with the
package installed by `%pip`, and a read-only installation.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.packaging.distributions import environment, surroundings
from tests.suite.long import long_only
from tests.suite.tools import needed

_CELLS = [
    "%pip install --quiet --no-deps --no-index {wheel}",
    """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
try:
    spark.read.format("pystreams").load()
except Exception as error:
    print("DATA_SOURCE_NOT_FOUND" in str(error))
""",
    """
import spark_streams
spark_streams.register(spark)
spark.range(5).write.format("pystreams").mode("append").option("stream", "s").save()
print(spark.read.format("pystreams").option("stream", "s").load().count(), spark.sparkContext.pythonExec)
""",
    """
rows = spark.readStream.format("pystreams").option("stream", "s").option("startingOffsets", "earliest")
copy = rows.schema("id long").load().writeStream.format("pystreams").option("stream", "copy")
query = copy.option("checkpointLocation", "checkpoint").trigger(availableNow=True).start()
query.awaitTermination()
copied = spark.read.format("pystreams").option("stream", "copy").schema("id long").load()
print(sorted(row.id for row in copied.collect()))
spark.stop()
""",
]

_RUN = """
import json, sys
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
notebook = new_notebook(cells=[new_code_cell(cell) for cell in json.load(sys.stdin)])
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
print(json.dumps(["".join(out.get("text", "") for out in cell.outputs) for cell in notebook.cells]))
"""


@long_only
@pytest.mark.spark
@pytest.mark.slow
def test_a_notebook_needs_no_settings(wheel: Path, tmp_path: Path) -> None:
    """`%pip install` and `register` suffice, even without PYSPARK_PYTHON and with another python3 on PATH."""
    kernel = environment(tmp_path / "kernel", None)
    others = environment(tmp_path / "others", None).parent
    ended = subprocess.run(
        [str(kernel), "-c", _RUN],
        input=json.dumps([cell.format(wheel=wheel) for cell in _CELLS]),
        cwd=tmp_path,
        env=surroundings(HOME=str(tmp_path), TMPDIR=str(tmp_path), PATH=f"{others}{os.pathsep}{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    installed, session, batch, query = json.loads(ended.stdout.splitlines()[-1])
    assert "ERROR" not in installed
    assert "True" in session
    assert "5 python3" in batch  # functions of Spark still run with the default Python
    assert "[0, 1, 2, 3, 4]" in query


_CONFINED = """
import os, tempfile
import spark_streams
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
spark_streams.register(spark)
spark.range(5).write.format("pystreams").mode("append").save("s")
rows = spark.readStream.format("pystreams").option("startingOffsets", "earliest").schema("id long").load("s")
copy = rows.writeStream.format("pystreams").option("checkpointLocation", tempfile.mkdtemp())
copy.trigger(availableNow=True).start("copy").awaitTermination()
copied = spark.read.format("pystreams").schema("id long").load("copy")
for path in (os.environ["HOME"], os.getcwd(), os.path.dirname(spark_streams.__file__)):
    assert not os.access(path, os.W_OK), path
print(sorted(row.id for row in copied.collect()))
spark.stop()
"""


@long_only
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give up rights")
def test_a_user_without_rights_needs_only_a_temporary_directory(wheel: Path, tmp_path: Path) -> None:
    """Without capabilities, and with a read-only installation, home and working directory, batches and queries work."""
    python = environment(tmp_path / "venv", wheel)
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    home.mkdir()
    scratch.mkdir()
    for path in (home, *(each for each in (tmp_path / "venv").rglob("*") if not each.is_symlink())):
        path.chmod(path.stat().st_mode & ~0o222)
    confined = [needed("setpriv"), "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    ended = subprocess.run(
        [*confined, str(python), "-c", _CONFINED],
        cwd=home,
        env=surroundings(HOME=str(home), TMPDIR=str(scratch)),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "[0, 1, 2, 3, 4]"
