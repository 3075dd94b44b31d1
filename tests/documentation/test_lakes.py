"""Change data capture into Delta and Iceberg as the page shows it: MERGE applies each change once, also over a restart.

Each format runs on the release of Spark that the page names, in an environment of its own. Spark's package comes from
the package index, and the jars come from Maven Central.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests import ROOT, servers
from tests.documentation.blocks import blocks_of
from tests.packaging.distributions import environment, surroundings
from tests.suite.long import long_only

PAGE = ROOT / "docs" / "guides" / "cdc.md"
#: Settings of the session, and the name of the format in SQL, by the name on the page.
FORMATS = {
    "Delta Lake": (
        {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
        "delta",
    ),
    "Iceberg": (
        {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.spark_catalog": "org.apache.iceberg.spark.SparkSessionCatalog",
            "spark.sql.catalog.spark_catalog.type": "hadoop",
            "spark.sql.catalog.spark_catalog.warehouse": "warehouse",
        },
        "iceberg",
    ),
}

#: Runs the page, makes more changes, fails after their merge, and continues. Prints the table.
PROGRAM = """
import json, sys
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

settings, blocks = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[2]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sql("CREATE DATABASE IF NOT EXISTS lake")
names = {"__name__": "__main__"}
for block in blocks:
    exec(block, names)
changed, merge = names["changed"], names["merge"]

def run(each):
    query = names["changes"].writeStream.foreachBatch(each).option("checkpointLocation", "checkpoint")
    query.trigger(availableNow=True).start().awaitTermination()

def merge_and_fail(batch, number):
    merge(batch, number)
    raise RuntimeError("after the merge")

run(merge)
changed("d", names["bob"], None)
changed("c", None, {"id": 3, "name": "Cat"})
changed("u", names["ann"], names["ann"] | {"name": "Anna"})
try:
    run(merge_and_fail)
except StreamingQueryException as error:
    assert "after the merge" in str(error), error
else:
    raise AssertionError("the query did not fail")
run(merge)
rows = spark.table("lake.customers").orderBy("id").collect()
print("RESULT", json.dumps([[row.id, row.name] for row in rows]))
spark.stop()
"""


@long_only
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", FORMATS)
def test_merge_applies_each_change_once(name: str, wheel: Path, tmp_path: Path) -> None:
    """After a failure behind a merge, the repeated batch changes nothing, and later changes are applied."""
    (row,) = (line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name} "))
    package = re.findall(r"`([\w.-]+:[\w.-]+:[\w.-]+)`", row)[0]
    release = re.findall(r"tried on ([0-9.]+)", row)[0]
    settings, table_format = FORMATS[name]
    python = environment(tmp_path / "venv", wheel, ("pyspark", "py4j"))
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"pyspark=={release}"]
    subprocess.run(pip, check=True, env=surroundings())
    blocks = [block.text for block in blocks_of(PAGE) if block.language == "python"]
    code = [*blocks[:2], blocks[3].replace("USING delta", f"USING {table_format}")]
    settings |= {"spark.jars.packages": package, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    settings |= {"spark.sql.warehouse.dir": str(tmp_path / "warehouse")}
    with servers.engine() as engine:
        result = subprocess.run(
            [str(python), "-c", PROGRAM, json.dumps([settings, code])],
            cwd=tmp_path,
            env=surroundings(PYSTREAMS_URL=engine.url, PYSPARK_PYTHON=str(python)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-5000:]
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("RESULT "))
    assert json.loads(line.removeprefix("RESULT ")) == [[1, "Anna"], [3, "Cat"]]
