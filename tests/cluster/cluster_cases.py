"""The connector on a Spark cluster of real processes: each way of deployment, and servers whose slots move and whose
masters die.

pytest collects this file only if it is named, because its name does not start with
`test_`.
"""

from __future__ import annotations

import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamwire.slots import slot_of
from tests.cluster.standalone import Application, Standalone, standalone
from tests.packaging.distributions import environment
from tests.servers import topologies
from tests.suite.waiting import wait_for

ROWS = 20_000
STREAMS = [f"out:{{{number}}}" for number in range(6)]
_PATIENCE = 400.0
#: Requirements of executors besides pystreams; Spark includes pyspark.
NEEDED = ("redis", "hiredis", "pyarrow", "numpy", "zstandard")


@pytest.fixture(scope="module")
def spark_cluster() -> Iterator[Standalone]:
    with standalone() as made:
        yield made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a Python with the wheel, as installed on every node."""
    return environment(tmp_path_factory.mktemp("installed") / "venv", wheel)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a Python with the requirements of pystreams, but without pystreams."""
    return environment(tmp_path_factory.mktemp("bare") / "venv", None)


@pytest.fixture(scope="module")
def packed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an archive of an environment in which files replace links, as made by venv-pack or conda-pack."""
    directory = tmp_path_factory.mktemp("packed")
    others = {path.name for path in Path(sysconfig.get_path("purelib")).iterdir()}
    environment(directory / "venv", wheel, [name for name in others if not name.startswith(NEEDED)])
    archive = directory / "env.tar.gz"  # Spark unpacks a .tar in another way, without the permission to execute
    with tarfile.open(archive, "w:gz", compresslevel=1, dereference=True) as file:
        for entry in (directory / "venv").iterdir():
            file.add(entry, entry.name)
    return archive


def copied(client: Any) -> list[int]:
    """Return the numbers that the query has written, in the order of each stream."""
    assert set(client.keys("out:*")) <= {name.encode() for name in STREAMS}
    return [int(fields[b"n"]) for name in STREAMS for _, fields in client.xrange(name)]


def assert_exact(client: Any, found: dict[str, Any]) -> None:
    """Assert that every number was written once, that numbers with the same key share a stream, and that nothing is
    pending.
    """
    numbers = copied(client)
    assert found["rows"] == ROWS
    assert sorted(numbers) == list(range(ROWS))
    for number in range(6):
        name = f"in:{{{number}}}"
        assert client.xpending(name, "copy")["pending"] == 0
        keys = [{fields[b"key"] for _, fields in client.xrange(stream)} for stream in (name, STREAMS[number])]
        assert keys[0] == keys[1]


def arguments(url: str, batch: int, **options: Any) -> dict[str, Any]:
    """Return the arguments of the job."""
    return {"url": url, "rows": ROWS, "batch": batch, "write": options}


WAYS = ("installed", "archives", "py-files")


@pytest.mark.parametrize("way", WAYS)
def test_both_workers_have_the_deployed_connector(
    way: str, spark_cluster: Standalone, installed: Path, bare: Path, packed: Path, wheel: Path, tmp_path: Path
) -> None:
    """With each way of deployment, both workers have the connector: a batch and a query copy 20,000 rows of six
    streams.
    """
    if way == "installed":
        words, pythons = [], {"PYSPARK_PYTHON": str(installed)}
    elif way == "archives":
        words = ["--archives", f"{packed}#env"]
        pythons = {"PYSPARK_PYTHON": "./env/bin/python", "PYSPARK_DRIVER_PYTHON": str(installed)}
    else:
        archive = tmp_path / "pystreams.zip"
        archive.write_bytes(wheel.read_bytes())
        words, pythons = ["--py-files", str(archive)], {"PYSPARK_PYTHON": str(bare)}
    with (
        topologies.cluster() as storage,
        storage.client() as client,
        spark_cluster.application(
            words, arguments(storage.url, 5000), installed.parents[1] if way == "archives" else None, **pythons
        ) as application,
    ):
        tasks = application.wait_for("tasks")
        assert "[MISSING_URL]" in tasks["without_url"]
        locations = [location.split(";") for location in tasks["locations"]]
        assert len({directory for directory, _ in locations}) == 2, locations
        for directory, origin in locations:
            parent = {
                "installed": f"{installed.parents[1]}/lib/",
                "archives": f"{directory}/env/lib/",
                "py-files": f"{directory}/pystreams.zip",
            }[way]
            assert origin.startswith(parent), (origin, parent)
        assert_exact(client, application.finish())
    print(f"\n{way}: {ROWS} rows, each once; tasks on {', '.join(origin for _, origin in locations)}")  # noqa: T201


def wait_for_more(application: Application, client: Any, rows: int) -> None:
    def reached() -> bool:
        ended = application.process.poll() is not None
        return ended or sum(client.xlen(name) for name in STREAMS) >= rows

    wait_for(reached, f"{rows} rows", _PATIENCE)
    assert application.process.poll() is None, application.output.read_text()


def test_slots_move_and_a_node_dies(spark_cluster: Standalone, installed: Path) -> None:
    """Every row is written exactly once although the slot of every stream moves and a master is killed during the
    query.
    """
    with topologies.cluster(replicas=2) as storage:
        job = arguments(storage.url, 2000, waitReplicas=1, waitTimeoutMs=40_000)
        with (
            storage.client() as client,
            spark_cluster.application([], job, PYSPARK_PYTHON=str(installed)) as application,
        ):
            application.wait_for("running")
            for number in range(6):
                wait_for_more(application, client, 2000 * number + 1)
                slot = slot_of(f"out:{{{number}}}".encode())
                storage.end_move(slot, *storage.begin_move(slot))
            victim = storage.owner(slot_of(b"out:{0}"))
            victim.process.kill()
            victim.process.wait(30)
            wait_for(lambda: victim not in storage.masters(), "a replica to take over", 60)
            wait_for_more(application, client, 14_000)
            found = application.finish()
            assert_exact(client, found)
    print(f"\nsix slots moved, one master killed; {ROWS} rows, each once; {found}")  # noqa: T201
