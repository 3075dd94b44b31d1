"""The installed wheel: every way of installing it, and what works without optional packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import redis

from tests import ROOT, servers
from tests.packaging.distributions import environment, install, surroundings
from tests.suite.long import long_only

#: Packages that the engine needs and the connector does not.
OF_THE_ENGINE = ("uvloop", "zstandard")


def run(python: str | Path, program: str, directory: Path, *words: str, **changed: str) -> str:
    """Run a program independently of the checkout, require success, and return its output."""
    result = subprocess.run(
        [str(python), "-c", textwrap.dedent(program), *words],
        cwd=directory,
        env=surroundings(TMPDIR=str(directory), **changed),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


START = """
    import engine, jobs, spark_streams
    from spark_streams.embedded import launcher
    client = launcher.connect()
    client.xadd("s", {"n": 1})
    print(client.xlen("s"), engine.WHOSE, jobs.WHOSE, spark_streams.__file__, sep=";")
"""


@pytest.fixture
def user_packages(tmp_path: Path) -> Path:
    """Return a working directory with the user's own packages `engine` and `jobs`."""
    directory = tmp_path / "work"
    for name in ("engine", "jobs"):
        (directory / name).mkdir(parents=True)
        (directory / name / "__init__.py").write_text("WHOSE = 'mine'")
    return directory


def test_the_embedded_engine_starts_from_site_packages(installed: Path, user_packages: Path) -> None:
    """Installed with pip, the embedded engine starts, and the user's own packages `engine` and
    `jobs` stay importable.
    """
    output = run(installed, START, user_packages, PYTHONPATH=str(user_packages))
    assert output.startswith(f"1;mine;mine;{installed.parent.parent}{os.sep}")


def test_the_embedded_engine_starts_from_a_zip_archive(wheel: Path, user_packages: Path) -> None:
    """The embedded engine also starts from the wheel itself on PYTHONPATH, as with `spark-submit --py-files`."""
    output = run(sys.executable, START, user_packages, PYTHONPATH=os.pathsep.join([str(user_packages), str(wheel)]))
    assert output == f"1;mine;mine;{wheel}/spark_streams/__init__.py\n"


#: Packages in the extras, and their requirements.
OF_EXTRAS = ("pyspark", "py4j", "pyarrow", "numpy", "zstandard", "xxhash", "uvloop", "pandas")


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a Python with the wheel and its required dependencies, without any extra."""
    return environment(tmp_path_factory.mktemp("bare") / "venv", wheel, OF_EXTRAS)


COMMANDS = """
    import sys
    from click.testing import CliRunner
    from pystreams.commands.root import cli

    lines = (
        "--help", "produce s a=1", "ls", "info s", "tail s", "groups create s g --yes", "groups lag s",
        "consume s --group g --limit 1", "pending ls s g", "export s s.jsonl", "trim s --maxlen 0 --yes", "jobs ls",
    )
    for line in lines:
        done = CliRunner().invoke(cli, line.split(), catch_exceptions=False, prog_name="pystreams")
        assert done.exit_code == 0, (line, done.output)
    for line in ("serve --port 0", "export s s.parquet", "jobs run archive", "jobs run archive --help"):
        done = CliRunner().invoke(cli, line.split(), catch_exceptions=False, prog_name="pystreams")
        assert done.exit_code, line
        print(done.stderr)
"""


def test_the_command_line_needs_no_extra(bare: Path, redis_process: servers.Running, tmp_path: Path) -> None:
    """Commands of `pystreams` work without Spark, Arrow and numpy.

    Commands that need one of these packages fail with an error that names the extra.
    """
    url = redis_process.url + "/9"
    try:
        found = run(bare, COMMANDS, tmp_path, PATH=str(bare.parent), XDG_CONFIG_HOME=str(tmp_path), PYSTREAMS_URL=url)
    finally:
        redis.Redis.from_url(url).flushdb()
    for message in (
        "[PACKAGE_MISSING] pystreams serve needs the package xxhash, which is not installed. "
        "pip install 'pystreams-spark[engine]'",
        "pystreams export needs the package pyarrow, which is not installed. pip install 'pystreams-spark[engine]'",
        "[NO_SPARK_SUBMIT] ",
        "pip install 'pystreams-spark[spark]'",
    ):
        assert message in found


def test_the_data_source_names_the_missing_extra(bare: Path, tmp_path: Path) -> None:
    """`spark_streams` can be imported without Spark; modules that need Spark fail with an error that says what to
    install.
    """
    program = """
        import importlib
        import spark_streams
        for module in ("spark_streams.source", "spark_streams.monitor", "pyspark_pystreams"):
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                print(str(error).replace("\\n", " "))
    """
    lines = run(bare, program, tmp_path).splitlines()
    assert len(lines) == 3
    for line in lines:
        assert line.startswith("The Spark data source pystreams needs the package '")
        assert f"which {bare} does not have. Install it: pip install 'pystreams-spark[" in line


@pytest.fixture(scope="module")
def lean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a Python with the wheel and all dependencies except those that only the engine needs."""
    return environment(tmp_path_factory.mktemp("lean") / "venv", wheel, OF_THE_ENGINE)


SHIPPED = """
    import os
    import engine, jobs
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        spark.read.format("pystreams").load()
    except Exception as error:
        assert "DATA_SOURCE_NOT_FOUND" in str(error), error
    else:
        raise AssertionError("Spark finds what comes with the application: the guide Deploying says it does not")
    import spark_streams
    for _ in range(2):
        spark_streams.register(spark)
    assert ".zip" in spark_streams.__file__, spark_streams.__file__
    spark.range(5).write.format("pystreams").mode("append").option("stream", "s").save()
    rows = spark.read.format("pystreams").option("stream", "s").load().count()

    def owners(batches):
        import engine, jobs
        for batch in batches:
            yield batch.from_pydict({"owners": [engine.WHOSE + "," + jobs.WHOSE] * batch.num_rows})

    seen = {row.owners for row in spark.range(4).mapInArrow(owners, "owners string").collect()}
    assert seen == {engine.WHOSE + "," + jobs.WHOSE}, seen
    reader = spark.readStream.format("pystreams").option("stream", "s").option("startingOffsets", "earliest")
    writer = reader.schema("id long").load().writeStream.format("pystreams").option("stream", "copy")
    query = writer.option("checkpointLocation", os.environ["TMPDIR"] + "/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    copied = spark.read.format("pystreams").option("stream", "copy").schema("id long").load().collect()
    print(rows, sorted(row.id for row in copied), sorted(seen), sep=";", flush=True)
    spark.stop()
"""


@long_only
@pytest.mark.spark
@pytest.mark.slow
def test_a_wheel_shipped_with_the_application_can_be_registered(
    wheel: Path, tmp_path: Path, user_packages: Path
) -> None:
    """With `--py-files`, `register` makes the source available to batches and queries, and the embedded engine starts.

    The user's own packages `engine` and `jobs` stay importable in the driver and the workers.
    """
    python = str(environment(tmp_path / "venv", None))
    # Spark adds .zip, .egg and .jar files to the path, but not .whl.
    archive = shutil.copy(wheel, tmp_path / "pystreams.zip")
    output = run(
        python,
        SHIPPED,
        user_packages,
        PYSPARK_PYTHON=python,
        PYSPARK_SUBMIT_ARGS=f"--py-files {archive} pyspark-shell",
        PYTHONPATH=str(user_packages),
    )
    assert output == "5;[0, 1, 2, 3, 4];['mine,mine']\n"


#: The calls of Spark in their order; objects sent to a worker are pickled.
READ_AND_WRITE = """
    import json, pickle, sys
    import pyarrow as pa
    from pyspark.sql.types import StructType
    from spark_streams.source import PystreamsDataSource

    def source(**options):
        return PystreamsDataSource({"url": sys.argv[1], "stream": "s", **options})

    def to_worker(what):
        return pickle.loads(pickle.dumps(what))

    def rows_of(reader, partitions):
        return [row for part in partitions for batch in to_worker(reader).read(to_worker(part)) for row in
                batch.to_pylist()]

    schema = StructType().add("n", "long").add("name", "string")
    for mode, numbers in (("exactlyOnce", [1, 2]), ("append", [3, 4]), ("atomic", [5])):
        writer = source(writeMode=mode).writer(schema, False)
        rows = pa.RecordBatch.from_pydict({"n": numbers, "name": [f"row {n}" for n in numbers]})
        writer.commit([to_worker(writer).write(iter([rows]))])

    reader = source().reader(schema)
    batch = rows_of(reader, reader.partitions())
    result = {"batch": [[row["n"], row["name"]] for row in batch]}
    for consume in ("range", "shared"):
        reader = source(group=consume, consume=consume, startingOffsets="earliest").streamReader(schema)
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        found = rows_of(reader, reader.partitions(start, end))
        reader.commit(end)
        result[consume] = sorted(row["n"] for row in found)
    print(json.dumps(result))
"""


@pytest.mark.redis
def test_an_executor_without_uvloop_and_zstandard_reads_and_writes(
    lean: Path, redis_process: servers.Running, tmp_path: Path
) -> None:
    """Without uvloop and zstandard, batch and streaming reads and three modes of writing work as in a Spark worker."""
    client = redis.Redis.from_url(redis_process.url)
    client.flushall()
    try:
        found = json.loads(run(lean, READ_AND_WRITE, tmp_path, redis_process.url))
    finally:
        client.flushall()
        client.close()
    numbers = [1, 2, 3, 4, 5]
    assert found == {"batch": [[n, f"row {n}"] for n in numbers], "range": numbers, "shared": numbers}


REFUSED = """
    from spark_streams.embedded import launcher
    from spark_streams.errors import EmbeddedError
    try:
        launcher.url()
    except EmbeddedError as error:
        print(error)
"""


def test_the_embedded_engine_names_the_missing_package(lean: Path, tmp_path: Path) -> None:
    """The error of the embedded engine names the missing package, the Python without it, and how to install it."""
    assert run(lean, REFUSED, tmp_path) == (
        f"[EMBEDDED_NOT_INSTALLED] The embedded engine needs the package 'zstandard', which {lean} does not have. "
        "Install the engine's packages (pip install 'pystreams-spark[engine]'), or set the option 'url' to a server.\n"
    )


@long_only
def test_the_embedded_engine_runs_without_uvloop(wheel: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "venv", wheel, ["uvloop"])
    program = "from spark_streams.embedded import launcher; print(launcher.connect().ping())"
    assert run(python, program, tmp_path) == "True\n"


def test_a_connector_without_the_engine_reports_the_missing_package(wheel: Path, tmp_path: Path) -> None:
    """If the package `engine` is missing, the error of the embedded engine names the distribution."""
    target = tmp_path / "target"
    install(wheel, "--target", str(target))
    (target / "engine").rename(tmp_path / "engine")
    output = run(sys.executable, REFUSED, tmp_path, PYTHONPATH=str(target))
    assert output.startswith("[EMBEDDED_NOT_INSTALLED] The embedded engine needs the package 'pystreams-spark', which ")


@long_only
@pytest.mark.slow
def test_the_pages_run_with_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """Every example of the documentation runs in an environment with only the wheel."""
    python = environment(tmp_path / "venv", wheel)
    program = python.parent / "pytest"  # the examples of a page call it
    program.write_text(f'#!/bin/sh\nexec {python} -m pytest "$@"\n')
    program.chmod(0o755)
    elsewhere = tmp_path / "elsewhere"
    for name in ("tests", "docs", "scripts", "benchmarks", "conf"):
        shutil.copytree(ROOT / name, elsewhere / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "mkdocs.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, elsewhere)
    packages = (
        "import engine, pystreams, spark_streams, sys; print(*(m.__file__ for m in (engine, pystreams, spark_streams)))"
    )
    assert all(each.startswith(str(tmp_path / "venv")) for each in run(python, packages, elsewhere).split())
    result = subprocess.run(
        [str(python), "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "tests/documentation/test_pages.py"],
        cwd=elsewhere,
        env=surroundings(LONG_TESTS="1", PATH=f"{python.parent}{os.pathsep}{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
    assert "skipped" not in result.stdout
