"""The data source object: what each of a query's Python processes imports for it, and how it is pickled."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource

from spark_streams.source import PystreamsDataSource
from tests import ROOT

_SPARK = ("pyspark.sql.streaming.datasource", "pyspark.sql.pandas.types", "numpy", "pyarrow")
_SOURCE = """
from pyspark.sql.types import IntegerType, StructField, StructType
from spark_streams.source import PystreamsDataSource
schema = StructType([StructField("n", IntegerType())])
source = PystreamsDataSource({"url": "redis://127.0.0.1:1", "stream": "s", **options})
"""
_READ = f"options = {{}}{_SOURCE}source.streamReader(schema)"
#: Spark 4.0 has no filters for Python sources.
_BATCH = f"""
from pyspark.sql import datasource
for name in ("Filter", "EqualTo", "In"):
    delattr(datasource, name)
options = {{}}{_SOURCE}source.reader(schema)
"""
#: With allowEviction, the writer sends no requests to a server.
_WRITE = f"options = {{'allowEviction': 'true'}}{_SOURCE}source.streamWriter(schema, False)"
#: A planner counts entries of a server without PS. commands: in pages of different fields, of the same, and small ones.
_COUNT = r"""
from streamclient.codec.decode import decode_page
for count, widths in ((200, (1, 2)), (200, (1,)), (3, (1,))):
    frames = [
        b"*2\r\n$5\r\n%03d-0\r\n*%d\r\n" % (100 + i, 2 * widths[i % len(widths)])
        + b"$1\r\nf\r\n$1\r\n1\r\n" * widths[i % len(widths)]
        for i in range(count)
    ]
    reply = b"*%d\r\n" % count + b"".join(frames)
    page = decode_page(reply + bytes(16), reply.index(b"\n") + 1, len(reply), count)
    assert page.id_texts(slice(1, None, 50))[0] == b"101-0"
"""
#: Name; statements; modules of Spark and its packages, imported before the statements; packages that the statements
#: may import; maximum number of our modules; modules or packages of ours that must not be imported.
_PROCESSES = [
    (
        "source",
        f"options = {{}}{_SOURCE}",
        _SPARK,
        set(),
        35,
        {"spark_streams.columns", "spark_streams.read"},
    ),
    ("read", _READ, _SPARK, {"hiredis"}, 130, {"spark_streams.write"}),
    ("batch on Spark 4.0", _BATCH, _SPARK, {"hiredis"}, 130, {"spark_streams.read.pushdown", "spark_streams.write"}),
    ("write", _WRITE, _SPARK, {"hiredis"}, 100, {"spark_streams.read"}),
    ("count", _COUNT, _SPARK, {"hiredis"}, 60, {"spark_streams"}),
    ("supervisor", "import spark_streams.embedded.supervisor", (), set(), 35, {"spark_streams.read"}),
    (
        "server",
        "import streamclient.streams.stream_server",
        (),
        {"cython_runtime", "hiredis", "numpy", "pyarrow"},
        50,
        {"spark_streams"},
    ),
]
_OURS = {"spark_streams", "streamclient", "streamwire"}
_SLOW = {
    "asyncio",
    "difflib",
    "email",
    "http",
    "importlib.metadata",
    "multiprocessing",
    "pyarrow.compute",
    "spark_streams.embedded.launcher",
    "spark_streams.formats",
    "ssl",
    "unittest",
}
_PROGRAM = """
import importlib, json, sys
statements, *before = json.loads(sys.argv[1])
for name in before:
    importlib.import_module(name)
old = set(sys.modules)
exec(statements, {})
print(json.dumps(sorted(set(sys.modules) - old)))
"""


@pytest.mark.parametrize(
    ("statements", "before", "allowed", "most", "others"),
    [case for _, *case in _PROCESSES],
    ids=[name for name, *_ in _PROCESSES],
)
def test_a_process_imports_only_what_it_needs(
    statements: str, before: tuple[str, ...], allowed: set[str], most: int, others: set[str]
) -> None:
    """Each process of a query imports only its own side of the connector and no slow modules."""
    command = [sys.executable, "-c", _PROGRAM, json.dumps([statements, *before])]
    environment = {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(result.stdout)
    packages = {name.partition(".")[0] for name in found} - set(sys.stdlib_module_names) - _OURS
    expected = allowed | {name.partition(".")[0] for name in before}
    assert {name for name in packages - expected if not name.startswith("_")} == set()
    assert (_SLOW | others).intersection(found) == set()
    ours = [name for name in found if name.partition(".")[0] in _OURS]
    assert len(ours) <= most


class Renamed(PystreamsDataSource):
    """A user's source that is derived from `PystreamsDataSource`."""

    @classmethod
    def name(cls) -> str:
        return "renamed"


@pytest.mark.parametrize("kind", [PystreamsDataSource, Renamed])
def test_pickling_keeps_a_source(kind: type[DataSource]) -> None:
    """Pickling keeps the source's class, also a derived one, and its options."""
    found = cloudpickle.loads(cloudpickle.dumps(kind({"stream": "s", "url": "redis://localhost"})))
    assert (type(found), found.name()) == (kind, kind.name())
    assert dict(found.options) == {"stream": "s", "url": "redis://localhost"}
