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
from tests.engine.shell.durability.test_every_type_changes_hands import as_commands, without_times
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


def log_of(directory: Path, *lines: str, base: bytes = b"") -> dict[str, bytes]:
    """Write a log of these commands as Redis does; return the files by name."""
    folder = directory / "appendonlydir"
    folder.mkdir()
    (folder / "appendonly.aof.1.base.rdb").write_bytes(base or file_of())
    (folder / "appendonly.aof.1.incr.aof").write_bytes(b"".join(pack_command(tuple(line.split())) for line in lines))
    (folder / "appendonly.aof.manifest").write_bytes(
        b"file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"
    )
    return files(folder)


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


def test_all_files_next_to_an_original_are_kept(tmp_path):
    """A snapshot next to a log that is loaded in part is kept, too, although it is not loaded."""
    before = log_of(tmp_path, "SET text v", "RPUSH jobs a")
    (tmp_path / "dump.rdb").write_bytes(FILE)
    engine = Engine(tmp_path, **SKIP)
    engine.run("SAVE")
    engine.die()
    engine = Engine(tmp_path, **SKIP)
    engine.run("SAVE")
    logs = {f"original-1-appendonlydir/{name}": data for name, data in before.items()}
    assert kept(tmp_path) == {"original-1-dump.rdb": FILE, **logs}


@pytest.mark.parametrize("power_fails", [False, True])
@pytest.mark.parametrize("kind", ["snapshot", "log"])
def test_a_crash_loses_no_key(tmp_path, kind, power_fails):
    """After a crash or power failure at any step of a start and the first save, the original has one of its names."""
    for at in range(100):
        directory = tmp_path / str(at)
        directory.mkdir()
        if kind == "log":
            settings, before = SKIP, log_of(directory, "SELECT 0", "SET text v", "RPUSH jobs a")
            original = directory / "original-1-appendonlydir"
        else:
            settings, before, original = {**RDB, **SKIP}, {"original-1-dump.rdb": FILE}, directory
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
        assert before.items() <= files(original).items()
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


def test_a_torn_log_with_unsupported_types_is_not_truncated(tmp_path):
    """The torn end of a log that is refused stays; a log that is loaded in part is replaced, and kept with its end."""
    log_of(tmp_path, "SET text v", "RPUSH jobs a")
    path = tmp_path / "appendonlydir" / "appendonly.aof.1.incr.aof"
    path.write_bytes(path.read_bytes() + b"*2\r\n$3\r\nDE")
    before = files(tmp_path / "appendonlydir")
    with pytest.raises(ConfigError, match="lists: 1"):
        Engine(tmp_path)
    assert files(tmp_path / "appendonlydir") == before
    assert Engine(tmp_path, **SKIP).run("GET text") == b"v"
    assert files(tmp_path / "original-1-appendonlydir") == before


def test_a_log_is_counted_with_its_base(tmp_path):
    """The error has the keys of the base and those of later commands, each key once."""
    log_of(
        tmp_path,
        *("RPUSH jobs b", "LPOP jobs", "LPUSH other a", "SELECT 2", "ZADD scores 1 a", "ZADD scores 2 b"),
        *("SETBIT bits 7 1", "EVAL return 1 key", "FUNCTION LOAD #!lua", "SADD tags c"),
        base=FILE,
    )
    with pytest.raises(ConfigError) as error:
        Engine(tmp_path)
    assert (
        "lists: 3 (first: key 'jobs' of database 0); sets: 2 (first: key 'tags' of database 0); "
        "sorted sets: 1 (first: key 'scores' of database 2); bit commands: 1 (first: key 'bits' of"
    ) in str(error.value)
    assert "Lua scripts and functions: 2" in str(error.value)


@pytest.mark.parametrize(
    ("lines", "keys"),
    [
        (["RPUSH k a", "DEL k", "SET k v"], {"k": b"v"}),
        (["RPUSH k a", "SET k v", "APPEND k w"], {"k": b"vw"}),
        (["RPUSH k a", "RENAME k l", "PEXPIREAT l 9999999999999", "RENAME l k", "DEL k"], {}),
        (["SET k v", "RPUSH l a", "RENAME l k", "COPY k m"], {}),
        (["SET m v", "RPUSH l a", "COPY l m REPLACE"], {}),
        (["RPUSH k a", "SELECT 1", "SET k v", "SWAPDB 0 1", "APPEND k w", "SELECT 0", "APPEND k x"], {"k": b"vx"}),
        (["RPUSH k a", "MOVE k 1", "SET k v", "SELECT 1", "RENAME k l"], {"k": b"v"}),
        (["SET k v", "RPUSH m a", "LPOP m", "COPY k m DB 1", "SELECT 1", "MOVE m 0"], {"k": b"v", "m": b"v"}),
        (["RPUSH k a", "FLUSHALL", "SET k v", "RENAME k l"], {"l": b"v"}),
        (["HSET h f 1", "HPEXPIREAT h 9999999999999 FIELDS 1 f", "HSET h g 2", "HINCRBY h g 1"], {}),
        (["HSET h f 1", "HPEXPIREAT h 9999999999999 FIELDS 1 f", "DEL h", "HSET h g 2"], {"h": {b"g": b"2"}}),
        (["SET k v", "SETBIT k 7 1", "APPEND k w", "INCR n"], {"n": b"1"}),
        (["SET k v", "ZUNIONSTORE k 1 z", "SET l v"], {"l": b"v"}),
        (["MULTI", "RPUSH k a", "SET l v", "EXEC"], {"l": b"v"}),
        (["RPUSH k a", "LPOP k", "XADD k 1-1 f v", "XDEL k 1-1", "RENAME k s", "TYPE s"], {"s": None}),
        (["EVAL x 1 k", "SET k v"], {"k": b"v"}),
    ],
)
def test_the_rest_of_a_log_is_loaded(tmp_path, lines, keys):
    """A key is left out from the first command of an unsupported type until a command replaces its value."""
    log_of(tmp_path, "SELECT 0", *lines)
    engine = Engine(tmp_path, **SKIP)
    found = {name.decode(): value for name, value, _ in engine.core.databases[0].items()}
    assert found.keys() == keys.keys()
    assert all(wanted is None or wanted == found[name] for name, wanted in keys.items())
    engine.run("SET after 1")
    engine.die()
    again = Engine(tmp_path)
    assert again.run("DBSIZE") == len(keys) + 1


def test_a_restored_value_of_an_unsupported_type_is_left_out(tmp_path):
    """A RESTORE in a log with a value of an unsupported type leaves its key out."""
    log_of(tmp_path)
    payload = b"\x01\x01\x01a\x0b\x00"
    payload += crc64(payload).to_bytes(8, "little")
    path = tmp_path / "appendonlydir" / "appendonly.aof.1.incr.aof"
    lines = (("SET", "k", "v"), ("RESTORE", "k", "0", payload, "REPLACE"), ("SET", "l", "v"))
    path.write_bytes(b"".join(map(pack_command, lines)))
    with pytest.raises(ConfigError, match=r"lists: 1 \(first: key 'k' of database 0\)"):
        Engine(tmp_path)
    assert Engine(tmp_path, **SKIP).run("KEYS *") == [b"l"]


@pytest.mark.redis
@pytest.mark.parametrize("form", ["rdb", "aof", "aof without preamble"])
def test_files_of_redis_with_other_types(tmp_path, form):
    """The engine ends with status 1 and the types in a real server's file; in part, it loads all streams, strings and
    hashes, and the real server can load the original.
    """
    is_log = form.startswith("aof")
    flags = ["--dir", str(tmp_path), *(["--appendonly", "yes"] if is_log else [])]
    if form == "aof without preamble":
        flags += ["--aof-use-rdb-preamble", "no"]
    with servers.redis(*flags) as running, Connection(running) as client:
        real_files.fill(client.run)
        wanted = real_files.view(client.run)
        for words in real_files.unsupported():
            if "expiring" not in str(words[1]):  # Redis 7.0 has plain hashes of these names.
                client.run(*words)
        if is_log:
            client.run("BGREWRITEAOF")
            wait_for(lambda: b"aof_rewrite_in_progress:0" in client.run("INFO", "persistence"), "the rewrite")
            client.run("RPUSH", "list", "after")
            client.run("LPUSH", "new", "after")
        else:
            client.run("SAVE")
        now_us = int(client.run("TIME")[0]) * 10**6
        size = client.run("DBSIZE")
    settings = {"appendonly": "yes" if is_log else "no"}
    done = servers.run_engine("--port", "0", "--dir", str(tmp_path), "--appendonly", settings["appendonly"])
    assert done.returncode == 1
    lists = 3 if is_log else 2
    for counts in (f"lists: {lists} (first: key '", "sets: 4 (first: key '", "sorted sets: 2 (first: key '"):
        assert counts in done.stdout + done.stderr
    engine = Engine(tmp_path, now_us=now_us, **settings, **SKIP)
    found = real_files.view(engine.ask)
    assert found.keys() == wanted.keys()
    if form == "aof without preamble":
        found, wanted = as_commands(found), as_commands(wanted)
    assert without_times(found) == without_times(wanted)
    engine.run("SAVE")
    engine.die()
    if is_log:
        (tmp_path / "original-1-appendonlydir").rename(tmp_path / "original")
        flags += ["--appenddirname", "original"]
    else:
        (tmp_path / "original-1-dump.rdb").rename(tmp_path / "original.rdb")
        flags += ["--dbfilename", "original.rdb"]
    with servers.redis(*flags) as running, Connection(running) as client:
        assert client.run("DBSIZE") == size
        assert client.run("LLEN", "list") == (5 if is_log else 4)
