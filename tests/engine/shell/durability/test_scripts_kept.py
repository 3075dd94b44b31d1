"""Effects of scripts and function libraries in the log, in snapshots of both formats, and on replicas."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from tests import ROOT, servers
from tests.engine.shell.durability.lives import ALWAYS, life
from tests.servers.connection import Connection
from tests.suite.waiting import DEADLINE, wait_for

LIBRARY = "#!lua name=lib\nredis.register_function('answer', function() return 42 end)"
#: A script that writes random values, which cannot be computed again.
CHANCE = """local n = math.random(1000000) redis.call('SET', 'chance', n)
redis.call('SET', 'time', redis.call('TIME')[2])
redis.call('XADD', 's', '*', 'n', n) redis.call('SADD', 'set', 'a', 'b', 'c', 'd', 'e') redis.call('SPOP', 'set', 2)
redis.pcall('NONSENSE') redis.call('PEXPIRE', 'time', 100000) return n"""


def state(connection: Connection) -> list[Any]:
    """Return the values written by CHANCE."""
    set_of = sorted(connection.run("SMEMBERS", "set"))
    return [
        connection.run("GET", "chance"),
        connection.run("GET", "time"),
        connection.run("XRANGE", "s", "-", "+"),
        set_of,
    ]


def test_scripts_are_logged_by_their_effects(tmp_path):
    """After SIGKILL the values are those that the script drew; the log has one transaction and no EVAL."""
    with life(tmp_path, *ALWAYS) as (running, _), Connection(running) as connection:
        assert isinstance(connection.run("EVAL", CHANCE, 0), int)
        before = state(connection)
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(DEADLINE)
    [log] = tmp_path.rglob("*.incr.aof")
    text = log.read_bytes()
    assert b"EVAL" not in text.upper()
    assert text.count(b"MULTI") == text.count(b"EXEC") == 1
    with life(tmp_path, *ALWAYS) as (running, _), Connection(running) as connection:
        assert state(connection) == before


@pytest.mark.parametrize("way", ["log", "rewritten", "psb", "rdb"])
def test_libraries_survive_a_restart(tmp_path, way):
    """A library survives SIGKILL: in the log, in its base, and in a snapshot of each format."""
    flags = ALWAYS if way in ("log", "rewritten") else ("--save-format", way, "--appendonly", "no")
    with life(tmp_path, *flags) as (running, client), Connection(running) as connection:
        assert connection.run("FUNCTION", "LOAD", LIBRARY) == b"lib"
        connection.run("SET", "k", "v")
        if way == "rewritten":
            assert connection.run("BGREWRITEAOF").startswith(b"Background")
            wait_for(lambda: client.info()["aof_rewrite_in_progress"] == "0", "the rewritten log")
        elif way != "log":
            assert connection.run("SAVE") == b"OK"
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(DEADLINE)
    with life(tmp_path, *flags) as (running, _), Connection(running) as connection:
        assert b"number_of_libraries:1" in connection.run("INFO", "memory")
        assert connection.run("FCALL", "answer", 0) == 42
        assert connection.run("GET", "k") == b"v"


@pytest.mark.parametrize("way", ["log", "rdb"])
def test_libraries_outlive_a_start_without_lua(tmp_path, way):
    """Without lupa the engine starts, commands that need Lua name the missing package, and libraries are kept."""
    flags = ALWAYS if way == "log" else ("--save-format", way, "--appendonly", "no")
    data = tmp_path / "data"
    data.mkdir()
    with life(data, *flags) as (running, _), Connection(running) as connection:
        for name in ("lib", "gone"):
            connection.run("FUNCTION", "LOAD", LIBRARY.replace("lib", name).replace("answer", f"answer_{name}"))
        assert connection.run("FUNCTION", "DELETE", "gone") == b"OK"
        if way != "log":
            assert connection.run("SAVE") == b"OK"
    missing = tmp_path / "missing"
    missing.mkdir()
    (missing / "lupa.py").write_text("raise ImportError('no lupa')")
    without = {"PYTHONPATH": os.pathsep.join([str(missing), str(ROOT)])}
    with servers.engine("--dir", str(data), *flags, environment=without) as running, Connection(running) as connection:
        for words in (
            ("EVAL", "return 1", 0),
            ("SCRIPT", "LOAD", "return 1"),
            ("FUNCTION", "LOAD", LIBRARY),
            ("FUNCTION", "LIST"),
            ("FCALL", "answer_lib", 0),
        ):
            assert "pip install 'pystreams[lua]'" in str(connection.run(*words))
        for words in (("MULTI",), ("SET", "j", "v"), ("EVAL", "return 1", 0)):
            connection.run(*words)
        done, error = connection.run("EXEC")
        assert done == b"OK"
        assert "pip install" in str(error)
        assert len(connection.run("FUNCTION", "DUMP")) > 50
        assert connection.run("SET", "k", "v") == b"OK"
        if way != "log":
            assert connection.run("SAVE") == b"OK"
    with life(data, *flags) as (running, _), Connection(running) as connection:
        assert connection.run("FCALL", "answer_lib", 0) == 42
        assert "Function not found" in str(connection.run("FCALL", "answer_gone", 0))
        assert connection.run("GET", "k") == b"v"


def test_a_script_that_is_killed_leaves_no_effects(tmp_path):
    """If a server is killed during a script in a transaction, nothing of the transaction survives."""
    writes = "redis.call('SET', 'a', 1) redis.call('RPUSH', 'l', 1) while true do end"
    flags = (*ALWAYS, "--busy-reply-threshold", "20")
    with life(tmp_path, *flags) as (running, _), Connection(running) as connection, Connection(running) as other:
        assert connection.run("SET", "before", "1") == b"OK"
        for words in (("MULTI",), ("SET", "b", "1"), ("EVAL", writes, 0)):
            connection.run(*words)
        connection.send("EXEC")
        wait_for(lambda: "BUSY" in str(other.run("PING")), "a script that takes long")
        assert "UNKILLABLE" in str(other.run("SCRIPT", "KILL"))
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(DEADLINE)
    with life(tmp_path, *flags) as (running, _), Connection(running) as connection:
        assert connection.run("KEYS", "*") == [b"before"]


def test_replicas_get_libraries_and_effects_of_scripts():
    """A replica gets libraries in its full synchronisation, and later FUNCTION commands and effects of scripts."""
    with (
        servers.engine() as first,
        servers.engine() as second,
        Connection(first) as master,
        Connection(second) as replica,
    ):
        master.run("FUNCTION", "LOAD", LIBRARY)
        replica.run("REPLICAOF", "127.0.0.1", first.port)
        wait_for(
            lambda: replica.run("FCALL_RO", "answer", 0) != 42 and replica.run("ROLE")[3] == b"connected", "a link"
        )
        assert str(replica.run("FCALL_RO", "answer", 0)).startswith("READONLY")
        master.run("FUNCTION", "LOAD", "REPLACE", LIBRARY.replace("42", "43").replace("'answer', ", "'second', "))
        master.run("EVAL", CHANCE, 0)
        assert master.run("WAIT", 1, 20_000) == 1
        assert state(replica) == state(master)
        listed = replica.run("FUNCTION", "LIST", "WITHCODE")
        assert b"43" in listed[0][7]
        assert str(replica.run("EVAL", "return redis.call('SET','a','b')", 0)).startswith("READONLY")
        assert replica.run("EVAL", "return redis.call('EXISTS','chance')", 0) == 1
        assert str(replica.run("FUNCTION", "FLUSH")).startswith("READONLY")
