"""Declarative pipelines (`spark-pipelines`, Spark 4.1): the guide's project, and one without a server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import redis

from tests import ROOT, servers
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
FAILING = """

@dp.table
def missing():
    return spark.readStream.format("pystreams").options(**spark_streams.options(url=URL)).load("nothing")
"""
GUIDE = ROOT / "docs" / "guides" / "declarative-pipelines.md"


@pytest.fixture
def project() -> Iterator[Path]:
    """A pipeline's directory, whose short name leaves room for the path of a socket in it."""
    with tempfile.TemporaryDirectory(prefix="ps-") as made:
        yield Path(made)


def spark_pipelines(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run spark-pipelines in the project."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSTREAMS_")}
    environment |= {
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(project / "conf"),
        "TMPDIR": str(project),
        "JDK_JAVA_OPTIONS": QUICK,
        "SPARK_TESTING": "1",  # uses any free port instead of 15002, because tests run concurrently
    }
    return subprocess.run(
        [str(Path(sys.executable).with_name("spark-pipelines")), *words],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def run_pipeline(project: Path, **options: str) -> str:
    """Run a pipeline without tables, which must fail; return its output."""
    (project / "spark-pipeline.yml").write_text(
        f"name: numbers\nstorage: file://{project}/storage\nlibraries:\n  - glob:\n      include: flows/**\n"
    )
    (project / "flows").mkdir(exist_ok=True)
    (project / "flows" / "numbers.py").write_text(textwrap.dedent(FLOW.format(options=options)))
    done = spark_pipelines(project, "run")
    assert done.returncode != 0
    return done.stdout + done.stderr


@dataclass
class Shop:
    """The guide's project on a server."""

    project: Path
    client: redis.Redis

    def run(self, *words: str) -> str:
        """Run spark-pipelines, which must succeed; return its output."""
        done = spark_pipelines(self.project, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def table(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table, in any order, from its files."""
        return [
            row for file in self.project.glob(f"warehouse/{name}/*.parquet") for row in pq.read_table(file).to_pylist()
        ]

    def orders(self) -> list[str]:
        """Return the IDs in the table of orders, sorted."""
        return sorted(row["_id"] for row in self.table("orders"))

    def large(self) -> list[bytes]:
        """Return the customers in the sink's stream, in order."""
        return [fields[b"customer"] for _, fields in self.client.xrange("large-orders")]

    def position(self) -> bytes:
        (group,) = self.client.xinfo_groups("orders")
        assert (group["name"], group["pending"]) == (b"shop", 0)
        return bytes(group["last-delivered-id"])


@pytest.fixture
def shop(project: Path, engine_process: servers.Running) -> Iterator[Shop]:
    """The guide's project, unchanged except for the server's address and the directory."""
    text = GUIDE.read_text().replace("/data/shop", str(project)).replace("redis://localhost:6379", engine_process.url)
    blocks = dict(re.findall(r"^```(yaml|text|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    (project / "transformations").mkdir()
    (project / "conf").mkdir()
    (project / "spark-pipeline.yml").write_text(blocks["yaml"])
    (project / "transformations" / "shop.py").write_text(blocks["python"])
    settings = "spark.ui.enabled false\nspark.sql.shuffle.partitions 1\n"
    (project / "conf" / "spark-defaults.conf").write_text(blocks["text"] + settings)
    with redis.Redis(host=engine_process.host, port=engine_process.port, protocol=2) as client:
        client.flushall()
        yield Shop(project, client)
        client.flushall()


def test_the_guides_pipeline(shop: Shop) -> None:
    """Runs are incremental and exactly once, a full refresh reads everything again, and a failing flow fails only its
    run.
    """
    add = lambda entry, customer, price: shop.client.xadd("orders", {"customer": customer, "price": price}, id=entry)  # noqa: E731
    add("1-0", "ann", 50)
    add("2-0", "bob", 150)
    shop.run("dry-run")
    assert not shop.client.xinfo_groups("orders")

    shop.run("run")
    assert (shop.orders(), shop.large(), shop.position()) == (["1-0", "2-0"], [b"bob"], b"2-0")
    add("3-0", "ann", 300)
    shop.run("run")
    assert (shop.orders(), shop.large()) == (["1-0", "2-0", "3-0"], [b"bob", b"ann"])
    assert {row["customer"]: row["total"] for row in shop.table("totals")} == {"ann": 350.0, "bob": 150.0}

    shop.client.xdel("orders", "1-0")
    shop.run("run", "--full-refresh-all")
    assert (shop.orders(), shop.position()) == (["2-0", "3-0"], b"3-0")
    assert shop.large() == [b"bob", b"ann"] * 2

    code = shop.project / "transformations" / "shop.py"
    code.write_text(code.read_text() + FAILING)
    add("4-0", "eve", 400)
    failed = spark_pipelines(shop.project, "run")
    assert failed.returncode != 0
    assert "[STREAM_MISSING] There is no stream 'nothing'" in failed.stdout + failed.stderr
    assert (shop.orders(), shop.large()[4:]) == (["2-0", "3-0", "4-0"], [b"eve"])

    code.write_text(code.read_text().replace("startingOffsets=", "startingOfset="))
    refused = spark_pipelines(shop.project, "dry-run")
    assert refused.returncode != 0
    assert "[UNKNOWN_OPTION] There is no option 'startingOfset'" in refused.stdout + refused.stderr


def test_a_pipeline_without_a_server_is_refused(project: Path) -> None:
    """A pipeline on the embedded engine in memory fails with three remedies, because its rows would be lost with the
    process.
    """
    output = run_pipeline(project)
    assert "[EMBEDDED_NOT_KEPT] No server is named, and a declarative pipeline (spark-pipelines) cannot use" in output
    assert "'url'" in output
    assert "PYSTREAMS_URL" in output
    assert "'embedded.dir'" in output
