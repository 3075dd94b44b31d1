"""``python -m engine check`` finds all damage, reports its position, and removes a torn end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.core.dispatch import Core
from engine.core.formats.damage import DamagedError, UnsupportedTypes
from engine.core.formats.rdb.primitives import length, string
from engine.settings.config import Config
from engine.shell.durability import check, rdb_file
from tests import servers
from tests.engine.core.formats.rdb_files import file_of, key
from tests.engine.shell.durability.lives import encode
from tests.faults.engines import Engine
from tests.golden.scenarios import RELEASES
from tests.servers.connection import Connection

INCREMENT = "appendonly.aof.1.incr.aof"


def run(path: Path, *flags: str) -> tuple[int, str]:
    """Return the exit status and the output of the check."""
    lines: list[str] = []
    return check.main([str(path), *flags], lines.append), "\n".join(lines)


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return the directory of a log with one increment of five blocks and a transaction."""
    engine = Engine(tmp_path, save="")
    for line in ("XADD s 1-1 a 1", "XADD s 2-1 a 2", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >"):
        engine.run(line)
    for line in ("MULTI", "SET k v", "INCR n", "EXEC", "INCR n"):
        engine.run(line)
    engine.die()
    return tmp_path / "appendonlydir"


def test_intact_files_are_reported_as_intact(folder):
    """An intact log is found by the data directory, its own directory and its manifest, and a snapshot by its file."""
    engine = Engine(folder.parent)
    engine.run("SAVE")
    engine.die()
    for path in (folder.parent, folder, folder / "appendonly.aof.manifest", folder.parent / "dump.rdb"):
        status, output = run(path)
        assert (status, "damaged" in output) == (check.WHOLE, False), output
        assert "3 keys: intact" in output


def test_every_damage_is_found(folder):
    """A changed byte is found at each tried position, and the rest before it is intact."""
    path = folder / INCREMENT
    data = path.read_bytes()
    for at in range(0, len(data), 29):
        damaged = data[:at] + bytes((data[at] ^ 4,)) + data[at + 1 :]
        path.write_bytes(damaged)
        status, output = run(folder, "--fix")
        assert status == check.DAMAGED
        assert damaged_at(output) <= at
        assert path.read_bytes() == damaged
        path.write_bytes(data[: damaged_at(output)])
        assert run(folder)[0] == check.WHOLE or "incomplete command or transaction" in run(folder)[1]


def damaged_at(output: str) -> int:
    """Return the offset that the check reported."""
    found = re.search(r"damaged at byte (\d+): ", output)
    assert found is not None, output
    return int(found[1])


@pytest.mark.parametrize(
    "torn",
    [
        b"#PS 000000",
        b"#PS 000000" + bytes(5000),
        bytes(100),
        b"*1\r\n$9\r\n",
        encode([b"MULTI"]) + encode([b"SET", b"two", b"2"]),
    ],
)
def test_a_torn_end_is_removed(folder, torn):
    """A partial block, command or transaction at the end, or zeros, is reported; --fix removes it and keeps a copy."""
    path = folder / INCREMENT
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    status, output = run(folder)
    assert (status, damaged_at(output)) == (check.DAMAGED, len(whole))
    assert f"of {len(torn)} bytes" in output
    assert run(folder, "--fix")[0] == check.WHOLE
    assert path.read_bytes() == whole
    (backup,) = folder.glob("*.backup-1")
    assert backup.read_bytes() == whole + torn


def test_a_torn_file_before_others_is_not_changed(folder):
    """--fix changes nothing if files follow the torn one, because their commands depend on the missing ones."""
    engine = Engine(folder.parent)
    engine.files.fail("write", 28, "rewriteaof")
    engine.run("BGREWRITEAOF")
    engine.files.heal()
    engine.run("SET later 1")
    engine.die()
    path, later = folder / INCREMENT, folder / "appendonly.aof.2.incr.aof"
    path.write_bytes(torn := path.read_bytes()[:-3])
    status, output = run(folder, "--fix")
    assert status == check.DAMAGED
    assert f"later files depend on the damaged one: {later.name}" in output
    assert path.read_bytes() == torn


def test_a_running_engine_s_files_are_not_changed(folder):
    """--fix changes nothing while an engine holds the directory."""
    path = folder / INCREMENT
    path.write_bytes(path.read_bytes() + bytes(9))
    lock = check.Files().lock(folder.parent)
    try:
        status, output = run(folder, "--fix")
    finally:
        check.Files().close(lock)
    assert status == check.TROUBLE
    assert "in use by a running engine" in output
    assert path.read_bytes().endswith(bytes(9))


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["--nothing"], ["no such file"]])
def test_paths_that_cannot_be_checked(arguments, tmp_path, monkeypatch):
    """Wrong arguments, a missing path, and a file or directory of another kind give status 2."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("hello")
    assert check.main(arguments, lambda line: None) == check.TROUBLE
    assert run(tmp_path)[0] == check.TROUBLE
    assert run(tmp_path / "text")[0] == check.TROUBLE


def test_the_command_line(folder):
    """``python -m engine check`` prints the result and exits with the status of the check."""
    done = servers.run_engine("check", str(folder))
    assert (done.returncode, "keys: intact" in done.stdout) == (0, True)
    (folder / INCREMENT).write_bytes(b"*")
    assert servers.run_engine("check", str(folder)).returncode == check.DAMAGED


COMMANDS = [
    "SET string hello",
    "SET number 12345 EX 1000",
    f"SET long {'abc' * 100}",
    "HSET hash a 1 b 2",
    f"HSET wide {' '.join(f'f{number} {number}' for number in range(600))}",
    "XADD stream 1-1 a 1",
    "XADD stream 2-1 a 2",
    "XGROUP CREATE stream g 0",
    "XREADGROUP GROUP g c COUNT 1 STREAMS stream >",
]


@pytest.mark.redis
def test_rdb_files_of_redis():
    """A real server's RDB file with every type is intact; with a changed byte or an early end it is not."""
    with servers.redis("--dbfilename", "dump.rdb") as running, Connection(running) as connection:
        for line in COMMANDS:
            connection.run(*line.split())
        connection.run("SAVE")
        directory = connection.run("CONFIG", "GET", "dir")[1].decode()
        path = Path(directory) / "dump.rdb"
        status, output = run(path)
        assert status == check.WHOLE, output
        assert f"{connection.run('DBSIZE')} keys: intact" in output
        data = path.read_bytes()
    for at in (*range(0, 100, 3), *range(100, len(data), 997)):
        for wrong in (data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :], data[:at]):
            with pytest.raises(DamagedError) as caught:
                rdb_file.load(memoryview(wrong), Core(Config()), UnsupportedTypes(), expire=True)
            assert 0 <= caught.value.offset <= len(data)


def test_unsupported_types_are_reported(tmp_path):
    """Types that the engine does not store are named in every kind of file, and the check fails."""
    (tmp_path / "dump.rdb").write_bytes(file_of(key(1, b"jobs", length(1), string(b"a"))))
    folder = tmp_path / "appendonlydir"
    folder.mkdir()
    log = folder / "appendonly.aof.1.incr.aof"
    log.write_bytes(encode([b"SET", b"k", b"v"]) + encode([b"ZADD", b"scores", b"1", b"a"]))
    (folder / "appendonly.aof.manifest").write_bytes(b"file appendonly.aof.1.incr.aof seq 1 type i\n")
    psb = tmp_path / "old.psb"
    psb.write_bytes((RELEASES / "1.0.0rc1" / "engine-all-types" / "psb" / "dump.psb").read_bytes())
    for path, found in (
        (tmp_path / "dump.rdb", "1 keys: intact\n.*: lists: 1 \\(first: key 'jobs' of database 0\\)"),
        (psb, "keys: intact\n.*: lists: 2 \\(first: key 'list' of database 0\\)"),
        (folder, "1 keys: intact\n.*: sorted sets: 1 \\(first: key 'scores' of database 0\\)"),
    ):
        status, output = run(path)
        assert status == check.DAMAGED
        assert re.search(found.replace(".*: ", ".*types: .*"), output), output
    assert run(tmp_path)[0] == check.DAMAGED
