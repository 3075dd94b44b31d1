"""The engine as a process: start, exit, signals, configuration."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests import ROOT, servers
from tests.engine.shell.refused_starts import refused
from tests.servers.connection import Connection, wait_until_blocked
from tests.suite.waiting import DEADLINE, wait_for


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_engine(number: int) -> None:
    """SIGTERM and SIGINT close all connections, including blocked ones, and the process exits with status 0."""
    with servers.engine() as engine, Connection(engine) as client:
        client.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
        with Connection(engine) as other:
            wait_until_blocked(other, 1)
            engine.process.send_signal(number)
            assert client.rest() == b""
            assert other.rest() == b""
        assert engine.process.wait(DEADLINE) == 0
        assert "Traceback" not in engine.output.read_text()


def test_a_missing_package_is_named() -> None:
    """Without the packages that the engine needs, `python -m engine` prints one line that says how to install them."""
    words = [sys.executable, "-S", "-m", "engine", "--port", "0"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Install it: pip install 'pystreams-spark[engine]'" in done.stderr


def test_a_moved_log_file_is_created_again(tmp_path: Path) -> None:
    """Each time the log file is moved and SIGHUP arrives, lines go to a new file, and clients stay connected."""
    log = tmp_path / "engine.log"
    with servers.engine("--logfile", str(log)) as engine, Connection(engine) as client:
        for number in range(2):
            log.rename(tmp_path / f"engine.log.{number}")
            engine.process.send_signal(signal.SIGHUP)
            wait_for(log.exists, "a new log file")
            assert client.run("PING") == b"PONG"
        assert "SIGHUP" in (tmp_path / "engine.log.1").read_text()


def test_sighup_reloads_the_acl_file(tmp_path: Path) -> None:
    """New users can log in after SIGHUP; a broken file is logged, and the users stay the same."""
    users, log = tmp_path / "users.acl", tmp_path / "engine.log"
    users.write_text("user default on nopass ~* &* +@all\n")
    with servers.engine("--logfile", str(log), "--aclfile", str(users)) as engine, Connection(engine) as client:
        users.write_text("user default on nopass ~* &* +@all\nuser eve on >pw ~* +@read\n")
        engine.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "eve" in str(client.run("ACL", "USERS")), "the new user")
        users.write_text("what is this\n")
        engine.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "keeping the ACL users" in log.read_text(), "the refusal in the log")
        assert "eve" in str(client.run("ACL", "USERS"))


INCR = b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n"


def _loading(directory: Path, commands: int, *words: str) -> subprocess.Popen[bytes]:
    """Start an engine on a log of this many commands, and return its process while it loads them."""
    folder = directory / "appendonlydir"
    folder.mkdir()
    (folder / "appendonly.aof.manifest").write_bytes(b"file appendonly.aof.1.incr.aof seq 1 type i\n")
    (folder / "appendonly.aof.1.incr.aof").write_bytes(INCR * commands)
    command = [sys.executable, "-m", "engine", "--port", "0", "--dir", str(directory), "--appendonly", "yes", *words]
    process = subprocess.Popen(servers.tied_to_us(command), cwd=ROOT, stdout=subprocess.PIPE)
    maps = Path(f"/proc/{process.pid}/maps")
    wait_for(lambda: "appendonly.aof.1.incr" in maps.read_text(), "the start of loading")
    return process


def test_sighup_is_ignored_during_imports() -> None:
    """A process that has just started survives SIGHUP while Python imports its modules."""
    program = (
        "import runpy, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'engine.settings':\n"
        "            print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv = ['engine', '--help']\n"
        "runpy.run_module('engine', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "True"


def test_sighup_during_loading_changes_nothing(tmp_path: Path) -> None:
    """An engine that receives SIGHUP while it loads its data still loads all of it and then accepts clients."""
    process = _loading(tmp_path, 100_000)
    try:
        assert process.stdout is not None
        for _ in range(20):
            process.send_signal(signal.SIGHUP)
        ready = process.stdout.readline().decode()
        with redis.Redis(port=int(ready.split()[2].rpartition(":")[2])) as client:
            assert client.get("n") == b"100000"
    finally:
        servers.stop(process)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_loading_engine(tmp_path: Path, number: signal.Signals) -> None:
    """SIGTERM and SIGINT during loading exit with status 0 and a log line, and the files are unchanged."""
    process = _loading(tmp_path, 1_000_000, "--logfile", str(tmp_path / "engine.log"))
    try:
        process.send_signal(number)
        assert process.wait(DEADLINE) == 0
    finally:
        servers.stop(process)
    log = (tmp_path / "engine.log").read_text()
    assert f"stopped by {number.name} before the data was loaded" in log
    assert "Traceback" not in log
    assert (tmp_path / "appendonlydir" / "appendonly.aof.1.incr.aof").stat().st_size == 1_000_000 * len(INCR)


def test_shutdown_stops_the_engine() -> None:
    """SHUTDOWN NOSAVE closes the connection without a reply, and the process exits with status 0."""
    with servers.engine() as engine, Connection(engine) as client:
        client.send("SHUTDOWN", "NOSAVE")
        assert client.rest() == b""
        assert engine.process.wait(DEADLINE) == 0


def test_a_unix_socket_works_alongside_tcp(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A unixsocket has its permissions, works alongside TCP, and is removed at exit."""
    path = tmp_path_factory.mktemp("u") / "s"
    port = str(servers.free_port())
    with servers.engine("--port", port, "--unixsocket", str(path), "--unixsocketperm", "700") as engine:
        engine.connect().close()
        assert path.stat().st_mode & 0o777 == 0o700
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(DEADLINE)
            client.connect(str(path))
            client.sendall(b"CLIENT INFO\r\n")
            assert b"addr=%b:0 laddr=%b:0" % (bytes(path), bytes(path)) in client.recv(10_000)
    assert not path.exists()


def test_an_invalid_configuration_stops_the_start() -> None:
    """An unknown flag, an invalid value, a missing file and an occupied port stop the process with a message."""
    with servers.engine() as engine:
        cases = (
            (("--prot", "1"), "--prot: unknown directive 'prot'; did you mean 'port'?"),
            (("--port", "x"), "--port: port: argument couldn't be parsed into an integer"),
            (("/nowhere.conf",), "cannot read the configuration file /nowhere.conf"),
            (("--port", str(engine.port)), f"cannot listen on 127.0.0.1:{engine.port}: Address already in use"),
            (("--dir", "/nowhere"), "dir: /nowhere is not a directory"),
            (("--port", "0", "--unixsocket", "/tmp/" + "x" * 200), "x: AF_UNIX path too long"),
            (("--bind", "no.such.host.invalid"), "cannot listen on no.such.host.invalid:"),
        )
        for (_, message), output in zip(cases, refused([arguments for arguments, _ in cases]), strict=True):
            assert message in output


def test_a_configuration_file_is_read_and_rewritten(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Flags override the file; CONFIG REWRITE keeps comments and order, and writes the changes."""
    file = tmp_path_factory.mktemp("conf") / "engine.conf"
    file.write_text("# mine\ntimeout 7\nstream-idmp-maxsize 50 \nmaxclients 99\n")
    with servers.engine("--maxclients", "50", config_file=str(file)) as engine, Connection(engine) as client:
        assert client.run("CONFIG", "GET", "timeout", "maxclients") == [b"timeout", b"7", b"maxclients", b"50"]
        client.run("CONFIG", "SET", "timeout", "8", "slowlog-max-len", "20")
        assert client.run("CONFIG", "REWRITE") == b"OK"
    lines = file.read_text().splitlines()
    assert lines[:4] == ["# mine", "timeout 8", "stream-idmp-maxsize 50", "maxclients 50"]
    assert "slowlog-max-len 20" in lines
