"""Every type and encoding is exchanged with real servers as files, and their tools accept the engine's files.

``make test`` does this with the `redis-server` on PATH, `make test-long` also with those of `scripts/peers`.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import hiredis
import pytest

from tests import servers
from tests.engine.core.formats import real_files
from tests.faults.engines import Engine
from tests.servers.connection import Connection
from tests.suite import tools
from tests.suite.long import long_only
from tests.suite.waiting import DEADLINE

pytestmark = pytest.mark.redis

PROGRAMS = real_files.programs()
#: Latest version of RDB files that a server of this kind reads, if it differs from the engine's default.
_VERSIONS = {"redis-8.0": "12", "redis-8.6": "13", "valkey-8": "11", "valkey-9": "11"}
each_server = pytest.mark.parametrize(
    "name", [name if name == "redis-server" else pytest.param(name, marks=long_only) for name in PROGRAMS or ("none",)]
)


@pytest.fixture(autouse=True)
def _needs_redis() -> None:
    tools.needed("redis-server")


def version_of(name: str) -> str:
    """Return the version of RDB files for this server."""
    return next((version for known, version in _VERSIONS.items() if name.startswith(known)), "10")


def without_times(found: dict[bytes, Any]) -> dict[bytes, Any]:
    """Return the state without parts that depend on the time of its creation: generated IDs, delivery times."""
    out = dict(found)
    for key, (kind, deadline, content, more) in found.items():
        if kind == b"stream":
            groups = {
                name: {**group, b"pending": [(r[0], r[1], r[3]) for r in group[b"pending"]]}
                for name, group in content["groups"].items()
            }
            content = {**content, "groups": groups}
            if key == b"sent":
                content = [words for _, words in content["entries"]]
        out[key] = kind, deadline, content, more
    return out


def as_commands(found: dict[bytes, Any]) -> dict[bytes, Any]:
    """Return the state without pending records of deleted entries, which no command can create."""
    for kind, _, content, _ in found.values():
        for group in content["groups"].values() if kind == b"stream" else ():
            there = {entry[0] for entry in content["entries"]}
            group[b"pending"] = [record for record in group[b"pending"] if record[0] in there]
            del group[b"pel-count"]
            group["consumers"] = sorted(group["consumers"])
    return found


def check(name: str, tool: str, path: Path) -> str:
    """Check that a server's tool accepts an engine's file, and return the tool's output."""
    program = Path(PROGRAMS[name]).with_name(tool)
    done = subprocess.run([program, path], capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def engine_on(directory: Path, name: str) -> Engine:
    """Return an engine that writes files for this server."""
    return Engine(directory, now_us=int(time.time()) * 10**6, rdb_version=version_of(name), appendonly="no")


@each_server
def test_every_type_is_exchanged_with_the_engine(name, tmp_path):
    """The engine loads all data from a server's file, and the server loads it again from the engine's file."""
    with real_files.server(PROGRAMS[name], "--dir", str(tmp_path)) as client:
        real_files.fill(client.run)
        wanted = real_files.view(client.run)
        assert client.run("SAVE") == b"OK"
    assert {value[0] for value in wanted.values()} == {b"string", b"hash", b"stream"}
    engine = engine_on(tmp_path, name)
    assert real_files.view(engine.ask) == wanted
    engine.run("SAVE")
    engine.die()
    assert "RDB looks OK" in check(name, "redis-check-rdb", tmp_path / "dump.rdb")
    with real_files.server(PROGRAMS[name], "--dir", str(tmp_path)) as client:
        assert real_files.view(client.run) == wanted


@each_server
def test_data_made_by_the_engine_is_exchanged(name, tmp_path):
    """A server loads from the engine's RDB file the same data as from the commands, and its tools accept the file."""
    with real_files.server(PROGRAMS[name]) as client:
        refused = real_files.fill(client.run)
        wanted = without_times(real_files.view(client.run))
    engine = engine_on(tmp_path, name)
    for part in real_files.PARTS.values():
        for words in part():
            if words not in refused:
                engine.ask(*words)
    made = real_files.view(engine.ask)
    assert without_times(made) == wanted
    engine.run("SAVE")
    assert "RDB looks OK" in check(name, "redis-check-rdb", tmp_path / "dump.rdb")
    engine.die()
    with real_files.server(PROGRAMS[name], "--dir", str(tmp_path)) as client:
        assert real_files.view(client.run) == made


@each_server
def test_redis_cli_copies_every_type(name, tmp_path):
    """redis-cli --pipe writes every type to the engine, and a server starts with all data from a file of redis-cli
    --rdb.
    """
    with real_files.server(PROGRAMS[name]) as client:
        refused = real_files.fill(client.run)
    commands = [words for part in real_files.PARTS.values() for words in part() if words not in refused]
    with servers.engine("--rdb-version", version_of(name)) as running, Connection(running) as client:
        words = [Path(PROGRAMS[name]).with_name("redis-cli"), "-p", str(running.port)]
        sent = b"".join(map(hiredis.pack_command, commands))
        done = subprocess.run([*words, "--pipe"], input=sent, capture_output=True, timeout=DEADLINE, check=False)
        assert b"errors: 0, replies: %d\n" % len(commands) in done.stdout
        wanted = real_files.view(client.run)
        subprocess.run([*words, "--rdb", tmp_path / "dump.rdb"], capture_output=True, timeout=DEADLINE, check=True)
    assert "RDB looks OK" in check(name, "redis-check-rdb", tmp_path / "dump.rdb")
    with real_files.server(PROGRAMS[name], "--dir", str(tmp_path)) as client:
        assert real_files.view(client.run) == wanted
