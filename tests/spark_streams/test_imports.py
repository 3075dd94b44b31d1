"""Cost of starting a query: the modules that each of its Python processes imports on top of Spark's own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests import ROOT

#: Module, packages of Spark that are imported before it, and the packages that it may import itself.
_PROCESSES = [
    ("spark_streams.source", ("pyspark.sql.streaming.datasource", "numpy", "pyarrow"), {"hiredis"}),
    ("spark_streams.embedded.supervisor", (), set()),
    ("streamclient.streams.stream_server", (), {"cython_runtime", "hiredis", "numpy", "pyarrow"}),
]
_OURS = {"spark_streams", "streamclient", "streamwire"}
_SLOW = {"asyncio", "multiprocessing", "unittest", "email", "importlib.metadata", "http"}
_PROGRAM = """
import importlib, json, sys
module, *before = json.loads(sys.argv[1])
for name in before:
    importlib.import_module(name)
old = set(sys.modules)
importlib.import_module(module)
print(json.dumps(sorted(set(sys.modules) - old)))
"""


@pytest.mark.parametrize(("module", "before", "allowed"), _PROCESSES, ids=[module for module, *_ in _PROCESSES])
def test_a_process_imports_what_it_needs(module: str, before: tuple[str, ...], allowed: set[str]) -> None:
    """No client library, event loop or telemetry is imported by a process that starts for each query."""
    command = [sys.executable, "-c", _PROGRAM, json.dumps([module, *before])]
    environment = {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(result.stdout)
    packages = {name.partition(".")[0] for name in found} - set(sys.stdlib_module_names) - _OURS
    expected = allowed | {name.partition(".")[0] for name in before}
    assert {name for name in packages - expected if not name.startswith("_")} == set()
    assert _SLOW.intersection(found) == set()
