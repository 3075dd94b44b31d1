"""Startup cost of the command line: the imported modules."""

from __future__ import annotations

import subprocess
import sys

import pytest
import redis

from tests import ROOT, servers

_HEAVY = ("pyspark", "pyarrow", "numpy", "pandas", "prometheus_client", "starlette", "uvicorn", "fsspec")
_LINES = """\
--help
produce s n=1
produce s -f entries.jsonl
tail s --from start
groups create s g --at start --yes
groups lag
groups describe s g
info s
"""
_PROGRAM = f"""
import sys
from pystreams.commands.root import cli
for line in {_LINES.splitlines()}:
    cli(line.split(), standalone_mode=False)
    found = [name for name in {_HEAVY} if name in sys.modules]
    if found:
        sys.exit(f"{{line}} imports {{found}}")
"""


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_simple_verbs_do_not_import_spark_and_arrow(instance: servers.Running, client: redis.Redis, tmp_path) -> None:
    """Verbs that need neither Spark nor Arrow do not import them, because that would dominate the startup time."""
    (tmp_path / "entries.jsonl").write_text('{"n": 2}\n')
    environment = {"PYSTREAMS_URL": instance.url, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(tmp_path)}
    command = [sys.executable, "-c", _PROGRAM]
    result = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert client.xlen("s") == 2
