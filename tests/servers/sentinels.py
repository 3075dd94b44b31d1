"""Groups of replicating servers, engines and real ones, that can be killed and restarted; and Sentinels that watch
them.

Each context manager leaves nothing behind.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import redis

from tests import ROOT, servers
from tests.suite import tools
from tests.suite.waiting import wait_for

#: Maximum duration of a failover in seconds, including what happens before and after it.
PATIENCE = 30.0
#: Periods in milliseconds that make Sentinels fast.
QUICK = {"info-period": 100, "ping-period": 100, "ask-period": 100, "publish-period": 100, "election-timeout": 1000}
#: Settings without a delay for other replicas to join, and with frequent pings to replicas.
_FLAGS = ("--save", "", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")

#: Program that runs the engine with a clock that is late by the number of seconds in its first argument.
_OTHER_CLOCK = """
import runpy, sys, time
now, behind = time.time_ns, int(sys.argv.pop(1)) * 10**9
time.time_ns = lambda: now() - behind
runpy.run_module("engine", run_name="__main__", alter_sys=True)
"""


class Member:
    """A server that keeps its port when it is killed and restarted, with a configuration file that it may rewrite.

    ``kind`` is ``"engine"``, ``"redis"``, or the path of another redis-server or valkey-server. ``behind`` is the
    number of seconds by which the engine's clock is late.
    """

    def __init__(self, kind: str, directory: Path, *flags: str, behind: int = 0) -> None:
        self.kind = kind
        self.port = servers.free_port()
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.output = directory / "output.txt"
        self.config = directory / "server.conf"
        self.config.write_text(f"port {self.port}\nbind 127.0.0.1\ndir {directory}\n")
        if kind == "engine":
            program = [sys.executable, *(("-c", _OTHER_CLOCK, str(behind)) if behind else ("-m", "engine"))]
        else:
            program = [tools.needed("redis-server") if kind == "redis" else kind]
        self._command = servers.tied_to_us([*program, str(self.config), *_FLAGS, *flags])
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, and wait until it answers."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start the process."""
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                self._command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def wait(self) -> None:
        """Wait until the process answers."""
        wait_for(self._answers, f"the {self.kind} to answer", 60)

    def _answers(self) -> bool:
        with suppress(redis.RedisError, OSError), self.client() as client:
            return bool(client.ping())
        assert self.process is not None
        assert self.process.poll() is None, self.output.read_text()
        return False

    def client(self) -> redis.Redis:
        """Return a new client with a timeout for replies."""
        return redis.Redis(port=self.port, protocol=2, socket_timeout=20)

    def connect(self) -> socket.socket:
        """Return a new connection."""
        return socket.create_connection(("127.0.0.1", self.port), 20)

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> None:
        """Stop the process if it runs."""
        if self.process is not None:
            servers.stop(self.process)

    # -- queries ------------------------------------------------------------------------------------------------------

    def run(self, *words: str | bytes | int) -> object:
        """Run one command and return its reply."""
        with self.client() as client:
            return client.execute_command(*words)

    def info(self) -> dict[str, object]:
        """Return INFO replication, or an empty dict if the server does not reply."""
        with suppress(redis.RedisError, OSError), self.client() as client:
            found: dict[str, object] = client.info("replication")
            return found
        return {}

    def follows(self, master: Member) -> bool:
        """Return whether the server is a replica of ``master`` and its link is up."""
        info = self.info()
        return (info.get("master_port"), info.get("master_link_status")) == (master.port, "up")

    def has_all_of(self, master: Member) -> bool:
        """Return whether the server follows ``master`` and has applied its whole stream."""
        info = self.info()
        return (
            info.get("master_port") == master.port
            and info.get("master_link_status") == "up"
            and info.get("slave_repl_offset") == master.info().get("master_repl_offset")
        )


@contextmanager
def members(*kinds: str, flags: tuple[str, ...] = (), first: tuple[str, ...] = ()) -> Iterator[list[Member]]:
    """Yield servers that are all masters; ``first`` are flags of the first one only."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ps-family-")))
        found = [
            Member(kind, directory / f"{number}", *flags, *(() if number else first))
            for number, kind in enumerate(kinds)
        ]
        for member in found:
            stack.callback(member.stop)
            member.launch()
        for member in found:
            member.wait()
        yield found


@contextmanager
def family(*kinds: str, flags: tuple[str, ...] = (), first: tuple[str, ...] = ()) -> Iterator[list[Member]]:
    """Yield a master and its replicas, which have its data; ``first`` are flags of the master only."""
    with members(*kinds, flags=flags, first=first) as found:
        master, *replicas = found
        for replica in replicas:
            replica.run("REPLICAOF", "127.0.0.1", master.port)
        for replica in replicas:
            wait_for(lambda: replica.follows(master), "a replica to follow", PATIENCE)  # noqa: B023
        yield found


class Sentinels:
    """Three Sentinels that watch a group."""

    def __init__(self, ports: list[int]) -> None:
        self.ports = ports

    def url(self, name: str) -> str:
        """Return the connector's URL of the master ``name``."""
        return "redis+sentinel://" + ",".join(f"127.0.0.1:{port}" for port in self.ports) + f"/{name}"

    def client(self, number: int = 0) -> redis.Redis:
        """Return a client of one of the Sentinels."""
        return redis.Redis(port=self.ports[number], protocol=2, socket_timeout=5)

    def master(self, name: str) -> int:
        """Return the master's port as reported by the first Sentinel."""
        with self.client() as client:
            return int(client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)[1])

    @contextmanager
    def watching(self, name: str, found: list[Member], down_after: int = 500) -> Iterator[None]:
        """Let the Sentinels watch a group in this context, which begins when they know its servers and each other."""
        for number in range(len(self.ports)):
            with self.client(number) as client:
                client.execute_command("SENTINEL", "MONITOR", name, "127.0.0.1", found[0].port, 2)
                options = {"down-after-milliseconds": down_after, "failover-timeout": 1000, "parallel-syncs": 2}
                for option, value in options.items():
                    client.execute_command("SENTINEL", "SET", name, option, value)
        try:
            for number in range(len(self.ports)):
                wait_for(lambda: self._knows(number, name, len(found) - 1), "the Sentinels to know all", PATIENCE)  # noqa: B023
            yield
        finally:
            for number in range(len(self.ports)):
                with self.client(number) as client:
                    client.execute_command("SENTINEL", "REMOVE", name)

    def _knows(self, number: int, name: str, replicas: int) -> bool:
        with self.client(number) as client:
            state = client.sentinel_master(name)
        return int(state["num-other-sentinels"]) == len(self.ports) - 1 and int(state["num-slaves"]) == replicas


@contextmanager
def sentinels() -> Iterator[Sentinels]:
    """Yield three Sentinels that check their servers much more often than by default."""
    with ExitStack() as stack:
        found = Sentinels([stack.enter_context(servers.sentinel()).port for _ in range(3)])
        for number in range(len(found.ports)):
            with found.client(number) as client:
                client.execute_command("SENTINEL", "DEBUG", *(word for pair in QUICK.items() for word in pair))
        yield found
