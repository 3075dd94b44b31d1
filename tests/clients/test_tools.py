"""redis-cli at a terminal, in scripts and as a loader; redis-benchmark with its stream workload."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest
from hiredis import pack_command

from tests import servers
from tests.servers import Running
from tests.servers.connection import Connection
from tests.suite.tools import needed
from tests.suite.waiting import DEADLINE

#: Control sequences of the terminal: colours, cursor moves, hints in grey.
_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")


class Terminal:
    """A program that runs at a pseudo-terminal."""

    def __init__(self, command: list[str]) -> None:
        self._ours, terminal = pty.openpty()
        # Without a size redis-cli would query the terminal for the cursor's position.
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        surroundings = {**os.environ, "TERM": "xterm", "REDISCLI_HISTFILE": "/dev/null"}
        self.process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=surroundings)
        os.close(terminal)
        self._seen = b""

    def read_until(self, text: bytes) -> str:
        """Return the output up to ``text``."""
        end = time.monotonic() + DEADLINE
        while text not in self._seen:
            readable, _, _ = select.select([self._ours], [], [], max(end - time.monotonic(), 0))
            assert readable, f"{text!r} was not shown; so far {self._seen!r}"
            self._seen = _ESCAPES.sub(b"", self._seen + os.read(self._ours, 65536))
        shown, _, self._seen = self._seen.partition(text)
        return (shown + text).decode().replace("\r", "")

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._ours, line.encode() + b"\r")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(DEADLINE)
        os.close(self._ours)


def session(running: Running, lines: list[tuple[str, bytes]]) -> list[str]:
    """Return the output of each line typed at redis-cli's prompt, up to the line's last expected text."""
    terminal = Terminal([needed("redis-cli"), "-p", str(running.port)])
    try:
        terminal.read_until(b"> ")
        shown = []
        for line, last in lines:
            terminal.type(line)
            shown.append(terminal.read_until(last))
            if not last.endswith(b"> "):
                # Input before the prompt appears is discarded.
                terminal.read_until(b"> ")
        terminal.type("QUIT")
        terminal.process.wait(DEADLINE)
        assert terminal.process.returncode == 0
        return shown
    finally:
        terminal.close()


@pytest.mark.redis
def test_redis_cli_at_a_terminal(ours: Running, real: Running) -> None:
    """redis-cli shows entries, errors, and the transaction and database in its prompt as it does with Redis."""
    lines = [
        ("FLUSHALL", b"OK"),
        ("XADD s 1-1 field 'a b'", b'"1-1"'),
        ("XRANGE s - +", b'2) "a b"'),
        ("XADD s 1-1 f v", b"target stream top item"),
        ("MULTI", b"(TX)> "),
        ("XLEN s", b"QUEUED"),
        ("EXEC", b"1) (integer) 1"),
        ("SELECT 9", b"[9]> "),
        ("SELECT 0", b"OK"),
    ]
    assert session(ours, lines)
    assert session(real, lines)


@pytest.mark.redis
def test_redis_cli_monitors(ours: Running) -> None:
    """MONITOR at a terminal shows the commands of other clients."""
    terminal = Terminal([needed("redis-cli"), "-p", str(ours.port), "MONITOR"])
    try:
        terminal.read_until(b"OK")
        cli(ours, "SET", "a", "b")
        assert '"SET" "a" "b"' in terminal.read_until(b'"b"')
    finally:
        terminal.close()


def cli(server: Running, *arguments: str, stdin: bytes = b"") -> str:
    """Return the output of redis-cli."""
    done = subprocess.run(
        [needed("redis-cli"), "-p", str(server.port), *arguments],
        input=stdin,
        capture_output=True,
        check=True,
        timeout=DEADLINE * 4,
    )
    return (done.stdout + done.stderr).decode()


@pytest.mark.redis
def test_commands_and_output(ours: Running) -> None:
    """redis-cli runs commands from arguments, in RESP3, from stdin and in bulk, and shows help."""
    assert cli(ours, "xadd", "cli", "1-1", "f", "v") == "1-1\n"
    assert cli(ours, "-3", "--json", "xrange", "cli", "-", "+") == '[["1-1",["f","v"]]]\n'
    assert cli(ours, stdin=b"select 3\nset a 'b c'\nget a\n") == "OK\nOK\nb c\n"
    assert "replies: 1000" in cli(ours, "--pipe", stdin=b"INCR n\r\n" * 1000)
    assert "key arg arg arg" in cli(ours, "help", "ps.add")
    assert "GROUP group consumer [COUNT count]" in cli(ours, "help", "xreadgroup")
    assert cli(ours, "-n", "3", "--scan") == "a\n"


def test_redis_cli_samples_keys(ours: Running) -> None:
    """--bigkeys and --memkeys find the largest keys of each type, and --stat shows the number of keys."""
    cli(ours, stdin=b"FLUSHALL\nXADD s 1-1 f v\nXADD s 2-1 f v\nSET k v\nHSET h f v\n")
    biggest = cli(ours, "--bigkeys")
    for line in (
        "stream found '\"s\"' has 2 entries",
        "string found '\"k\"' has 1 bytes",
        "hash found '\"h\"' has 1 fields",
    ):
        assert f"Biggest {line.split(' ')[0]:>6} {line.partition(' ')[2]}" in biggest
    assert re.search(r"Biggest stream found '\"s\"' has \d+ bytes", cli(ours, "--memkeys"))
    terminal = Terminal([needed("redis-cli"), "-p", str(ours.port), "--stat"])
    try:
        terminal.read_until(b"\n3 ")
    finally:
        terminal.close()


@pytest.mark.redis
@pytest.mark.parametrize("words", [["-t", "ping,set,get,incr,hset,mset"], ["-P", "16", "XADD", "bench", "*", "f", "v"]])
def test_redis_benchmark(ours: Running, words: list[str]) -> None:
    """redis-benchmark runs the tests that the engine supports, with fifty clients and with pipelined XADDs, without an
    error.
    """
    done = subprocess.run(
        [needed("redis-benchmark"), "-p", str(ours.port), "-n", "2000", "--csv", *words],
        capture_output=True,
        text=True,
        timeout=DEADLINE * 4,
        check=True,
    )
    assert "rror" not in done.stdout + done.stderr
    assert "WARN" not in done.stderr
    assert len(done.stdout.splitlines()) >= 2


@pytest.mark.redis
def test_redis_cli_copies_all_data_as_an_rdb_file(ours: Running, tmp_path: Path) -> None:
    """redis-cli --rdb copies all data to a file.

    redis-check-rdb accepts the file, and an engine that is started with it has the data.
    """
    with Connection(ours) as client:
        client.run("FLUSHALL")
        adds = [pack_command(("XADD", "s", f"{number}-1", "f", "x" * 100)) for number in range(1, 3001)]
        assert "replies: 3000" in cli(ours, "--pipe", stdin=b"".join(adds))
        path = tmp_path / "dump.rdb"
        output = cli(ours, "--rdb", str(path))
        assert "Transfer finished with success" in output, output
        client.run("DEL", "s")
    checked = subprocess.run(
        [needed("redis-check-rdb"), str(path)], capture_output=True, text=True, timeout=DEADLINE, check=True
    )
    assert "RDB looks OK" in checked.stdout
    with servers.engine("--dir", str(tmp_path)) as again, Connection(again) as client:
        assert client.run("XLEN", "s") == 3000


def test_redis_cli_shows_the_stream_of_replicas(ours: Running) -> None:
    """redis-cli --replica, which requests SYNC, gets the file and then each command of the stream."""
    words = [needed("redis-cli"), "-p", str(ours.port), "--replica"]
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as cli_process,
        Connection(ours) as client,
    ):
        try:
            assert cli_process.stdout is not None
            for line in cli_process.stdout:
                if b"SYNC done" in line:
                    break
            client.run("SET", "seen", "by a replica")
            assert any(line.strip() == b'"SET","seen","by a replica"' for line in cli_process.stdout)
        finally:
            cli_process.kill()


def test_replconf_rejects_unknown_options(ours: Running) -> None:
    """Unknown options of REPLCONF are errors, and known options are accepted."""
    with Connection(ours) as client:
        assert client.run("REPLCONF", "capa", "eof", "listening-port", "7", "version", "7.0.15") == b"OK"
        assert str(client.run("REPLCONF", "what", "ever")) == "ERR Unrecognized REPLCONF option: what"
        assert str(client.run("REPLCONF", "capa")) == "ERR syntax error"
