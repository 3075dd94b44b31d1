"""Files with types that the engine does not store: refused by name, or loaded in part, with the original kept."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

import pytest
from hiredis import pack_command

from engine.core.formats.rdb.primitives import crc64, length, string
from engine.settings.kinds import ConfigError
from tests import servers
from tests.engine.core.formats import real_files
from tests.engine.core.formats.rdb_files import file_of, key
from tests.engine.shell.durability.test_every_type_changes_hands import without_times
from tests.faults.disk import Crash, Disk
from tests.faults.engines import Engine
from tests.servers.connection import Connection
from tests.suite.waiting import wait_for

FILE = file_of(
    key(0, b"text", string(b"v")),
    key(1, b"jobs", length(1), string(b"a")),
    key(2, b"tags", length(2), string(b"a"), string(b"b")),
    key(1, b"more", length(1), string(b"a")),
)
RDB = {"appendonly": "no"}
SKIP = {"skip_unsupported_types": "yes"}


def files(directory: Path) -> dict[str, bytes]:
    """Return the files in a directory and their content."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def kept(directory: Path) -> dict[str, bytes]:
    """Return the originals in a directory and their content."""
    return {name: data for name, data in files(directory).items() if name.startswith("original-")}


@pytest.mark.parametrize("save_format", ["rdb", "psb"])
def test_a_snapshot_is_kept_when_it_is_loaded(tmp_path, save_format):
    """The start keeps the original under another name; saves keep nothing."""
    path = tmp_path / ("dump.rdb" if save_format == "rdb" else "dump.psb")
    path.write_bytes(FILE)
    engine = Engine(tmp_path, **RDB, **SKIP, save_format=save_format)
    assert (engine.run("GET text"), engine.run("DBSIZE")) == (b"v", 1)
    assert engine.info()["engine_loading_left_out"] == 3
    assert files(tmp_path) == {path.name: FILE, f"original-1-{path.name}": FILE}
    for number in range(3):
        engine.run(f"SET text {number}")
        engine.run("SAVE")
    found = files(tmp_path)
    assert found.keys() == {path.name, f"original-1-{path.name}"}
    assert found[f"original-1-{path.name}"] == FILE
    engine.die()
    assert Engine(tmp_path, **RDB, save_format=save_format).run("GET text") == b"2"


def test_another_original_gets_another_name(tmp_path):
    """A second file that is loaded in part does not replace the first original."""
    for number in (1, 2):
        data = FILE[:-8] + bytes(8) if number == 2 else FILE
        (tmp_path / "dump.rdb").write_bytes(data)
        engine = Engine(tmp_path, **RDB, **SKIP)
        engine.run("SAVE")
        engine.die()
        assert (tmp_path / f"original-{number}-dump.rdb").read_bytes() == data
    assert (tmp_path / "original-1-dump.rdb").read_bytes() == FILE


def test_an_original_outlives_a_change_of_the_format(tmp_path):
    """An original that a snapshot of the other format did not replace is kept when a later save replaces it."""
    (tmp_path / "dump.rdb").write_bytes(FILE)
    engine = Engine(tmp_path, **RDB, **SKIP, save_format="psb")
    engine.run("SET text w")
    engine.run("SAVE")
    engine.die()
    engine = Engine(tmp_path, **RDB)
    assert engine.run("GET text") == b"w"
    engine.run("SAVE")
    assert (tmp_path / "dump.rdb").read_bytes() != FILE
    assert kept(tmp_path) == {"original-1-dump.rdb": FILE}


@pytest.mark.parametrize("power_fails", [False, True])
def test_a_crash_loses_no_key(tmp_path, power_fails):
    """After a crash or power failure at any step of a start and the first save, the original has one of its names."""
    settings = {**RDB, **SKIP}
    for at in range(100):
        directory = tmp_path / str(at)
        directory.mkdir()
        (directory / "dump.rdb").write_bytes(FILE)
        disk = Disk()
        disk.crash_at = at
        with suppress(Crash):
            Engine(directory, disk, **settings).run("SAVE")
        if power_fails:
            disk.lose()
        disk.end()
        again = Engine(directory, **settings)
        assert (again.run("GET text"), again.run("DBSIZE")) == (b"v", 1)
        again.run("SAVE")
        again.die()
        assert files(directory)["original-1-dump.rdb"] == FILE
        # (The test's disk gives a file a new identity when it undoes a change of its name.)
        assert power_fails or not list(directory.glob("original-2-*"))
        if not disk.crashed:
            break
    assert at > 5


def test_a_disk_without_room_stops_the_start(tmp_path):
    """If the original cannot be kept, the start fails, and the file stays as it is until the disk has room."""
    (tmp_path / "dump.rdb").write_bytes(FILE)
    disk = Disk()
    disk.fail("link", errno.ENOSPC)
    with pytest.raises(ConfigError, match="No space left"):
        Engine(tmp_path, disk, **RDB, **SKIP)
    assert files(tmp_path) == {"dump.rdb": FILE}
    disk.heal()
    Engine(tmp_path, disk, **RDB, **SKIP).run("SAVE")
    assert (tmp_path / "original-1-dump.rdb").read_bytes() == FILE


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            ["RPUSH", "jobs", "a"],
            "RPUSH jobs a ... failed: ERR unknown command 'RPUSH': this engine stores streams;",
        ),
        (["RESTORE", "jobs", "0", "PAYLOAD"], "ERR unsupported value: this engine stores streams; lists need"),
    ],
)
def test_a_log_is_refused_at_the_first_unsupported_command(tmp_path, line, reason):
    """A log with an unsupported command or value is refused by name, is not truncated, and nothing of it is skipped."""
    payload = b"\x01\x01\x01a\x0b\x00"
    payload += crc64(payload).to_bytes(8, "little")
    Engine(tmp_path).die()
    path = tmp_path / "appendonlydir" / "appendonly.aof.1.incr.aof"
    words = [payload if word == "PAYLOAD" else word for word in line]
    path.write_bytes(b"".join(map(pack_command, [("SET", "k", "v"), tuple(words)])) + b"*2\r\n$3\r\nDE")
    before = files(tmp_path)
    with pytest.raises(ConfigError) as error:
        Engine(tmp_path, **SKIP)
    assert reason in str(error.value)
    assert files(tmp_path) == before


@pytest.mark.redis
@pytest.mark.parametrize("form", ["rdb", "aof"])
def test_files_of_redis_with_other_types(tmp_path, form):
    """The engine ends with status 1 and the types in a real server's snapshot or base; in part, it loads all streams,
    strings and hashes of the snapshot, and the real server can load the original.
    """
    is_log = form == "aof"
    flags = ["--dir", str(tmp_path), "--appendonly", "yes" if is_log else "no"]
    with servers.redis(*flags) as running, Connection(running) as client:
        real_files.fill(client.run)
        wanted = real_files.view(client.run)
        for words in real_files.unsupported():
            if "expiring" not in str(words[1]):  # Redis 7.0 has plain hashes of these names.
                client.run(*words)
        if is_log:
            client.run("BGREWRITEAOF")
            wait_for(lambda: b"aof_rewrite_in_progress:0" in client.run("INFO", "persistence"), "the rewrite")
        else:
            client.run("SAVE")
        now_us = int(client.run("TIME")[0]) * 10**6
        size = client.run("DBSIZE")
    done = servers.run_engine("--port", "0", *flags, "--skip-unsupported-types", "yes" if is_log else "no")
    assert done.returncode == 1
    for counts in ("lists: 2 (first: key '", "sets: 4 (first: key '", "sorted sets: 2 (first: key '"):
        assert counts in done.stdout + done.stderr
    if is_log:
        return
    engine = Engine(tmp_path, now_us=now_us, **RDB, **SKIP)
    assert without_times(real_files.view(engine.ask)) == without_times(wanted)
    engine.run("SAVE")
    engine.die()
    with servers.redis(*flags, "--dbfilename", "original-1-dump.rdb") as running, Connection(running) as client:
        assert (client.run("DBSIZE"), client.run("LLEN", "list")) == (size, 4)
