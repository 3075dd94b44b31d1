"""Unexpected errors in the engine, as seen by clients and on disk: it stops, and restarts with consistent data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hiredis
import pytest

from tests import ROOT
from tests.servers import Running, ready_line, stop, tied_to_us
from tests.servers.connection import Connection
from tests.suite.long import long_only
from tests.suite.waiting import DEADLINE, wait_for

#: EX_SOFTWARE of sysexits.h.
STATUS = 70


@contextmanager
def engine(directory: Path, *flags: str, faults: dict[str, int] | None = None) -> Iterator[Running]:
    """Yield an engine that logs into ``directory``; ``faults`` makes commands fail (see `faulty_engine`)."""
    output = directory / "errors.txt"
    module = "engine" if faults is None else "tests.engine.shell.faulty_engine"
    words = ["--port", "0", "--dir", str(directory), "--save", "", "--appendonly", "yes", *flags]
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "FAULTS": json.dumps(faults or {})}
    with output.open("ab") as sink:
        process = subprocess.Popen(
            tied_to_us([sys.executable, "-m", module, *words]),
            cwd=directory,
            env=surroundings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=sink,
        )
    try:
        host, port = ready_line(process, output)
        yield Running(process, host, port, None, directory, output)
    finally:
        stop(process)


def contents(server: Running) -> dict[bytes, object]:
    """Return all keys of the server with their values."""
    with Connection(server) as client:
        keys = client.run("KEYS", "*")
        assert isinstance(keys, list)
        reads = {b"string": ("GET",), b"hash": ("HGETALL",), b"stream": ("XRANGE", "-", "+")}
        found = {}
        for key in sorted(keys):
            word, *more = reads[client.run("TYPE", key)]
            found[key] = client.run(word, key, *more)
        return found


def end_of(client: Connection) -> list[object]:
    """Return the replies that arrive until the connection ends."""
    replies = []
    while True:
        try:
            replies.append(client.receive())
        except (ConnectionError, OSError):
            return replies


@pytest.mark.parametrize("policy", ["always", pytest.param("everysec", marks=long_only)])
def test_a_command_that_fails_in_the_middle_stops_the_engine(tmp_path, policy):
    """The client gets an error, the engine exits with status 70, and the log has the commands before the failure."""
    with engine(tmp_path, "--appendfsync", policy, faults={"mset": 4, "set": 1}) as server:
        with Connection(server) as client, Connection(server) as other:
            assert other.run("HSET", "hash", "a", "b") == 1
            client.socket.sendall(
                b"".join(
                    hiredis.pack_command(words)
                    for words in (
                        ("SET", "one", "1"),
                        ("XADD", "s", "1-1", "f", "v"),
                        ("MULTI",),
                        ("SET", "two", "2"),
                        ("MSET", "a", "1", "FAULT", "2", "c", "3"),
                        ("EXEC",),
                        ("SET", "after", "1"),
                    )
                )
            )
            *replies, error = end_of(client)
            assert replies == [b"OK", b"1-1", b"OK", b"QUEUED", b"QUEUED"]
            assert str(error) == "ERR internal error"
            assert end_of(other) == []
        assert server.process.wait(DEADLINE) == STATUS
    report = (tmp_path / "errors.txt").read_text()
    assert "unexpected error in the command mset of client" in report
    assert "(name and arguments of [4, 1, 1, 5, 1, 1, 1] bytes)" in report
    assert "MistakeError" in report
    with engine(tmp_path) as server:
        assert contents(server) == {b"hash": [b"a", b"b"], b"one": b"1", b"s": [[b"1-1", [b"f", b"v"]]]}


def test_a_woken_command_that_fails_stops_the_engine(tmp_path):
    """The blocked client gets an error, and the command that woke it is in the log."""
    with engine(tmp_path, faults={"xreadgroup": 1}) as server:
        with Connection(server) as waiting, Connection(server) as pusher:
            assert pusher.run("XGROUP", "CREATE", "s", "FAULT", "$", "MKSTREAM") == b"OK"
            assert pusher.run("XGROUP", "CREATECONSUMER", "s", "FAULT", "c") == 1
            waiting.send("XREADGROUP", "GROUP", "FAULT", "c", "BLOCK", 0, "STREAMS", "s", ">")
            wait_for(
                lambda: b"blocked_clients:1" in pusher.run("INFO", "clients"),  # type: ignore[operator]
                "the client to wait",
            )
            pusher.send("XADD", "s", "1-1", "f", "v")
            assert [str(reply) for reply in end_of(waiting)] == ["ERR internal error"]
            end_of(pusher)
        assert server.process.wait(DEADLINE) == STATUS
    with engine(tmp_path) as server:
        assert contents(server) == {b"s": [[b"1-1", [b"f", b"v"]]]}


def test_an_unexpected_error_in_the_replay_stops_the_start(tmp_path):
    """An unexpected error in the replay stops the start, names the file and the position, and leaves the log intact."""
    with engine(tmp_path) as server, Connection(server) as client:
        for words in (("SET", "one", "1"), ("MSET", "a", "1", "FAULT", "2"), ("SET", "after", "1")):
            assert client.run(*words) == b"OK"
    with (
        pytest.raises(
            RuntimeError, match=r"appendonly\.aof\.1\.incr\.aof, byte \d+: \w+ .* unexpected error: MistakeError"
        ),
        engine(tmp_path, faults={"mset": 2, "set": 1}),
    ):
        pass
    with engine(tmp_path) as server:
        assert contents(server) == {b"FAULT": b"2", b"a": b"1", b"after": b"1", b"one": b"1"}
