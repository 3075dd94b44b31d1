"""The chaos harness: runs the job, a producer and a server, kills them, and compares the output with the input."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from pyspark.sql import SparkSession

from pystreams.testing.proxy import FaultProxy, proxy
from spark_streams import register
from tests import ROOT, servers
from tests.chaos.family import Family, watched_family
from tests.chaos.held import DIRECTORY
from tests.chaos.job import copy
from tests.suite import tools
from tests.suite.waiting import wait_for

#: Targets of kills with relative frequencies: a driver takes longest to restart.
#: A `driver` is killed at any moment; `commit` is a driver killed between its tasks' end and Spark's commit log.
TARGETS = {"connection": 4, "worker": 3, "server": 2, "driver": 1, "commit": 2}
#: In a family, masters are killed: at any moment, or while a driver is held in its commit, which then continues. (The
#: client library connects to the servers of a family itself, so no proxy can cut its connections.)
FAMILY_TARGETS = {"worker": 2, "driver": 1, "commit": 1, "master": 3, "master in commit": 2}
_MASTERS = ("master", "master in commit")
_PATIENCE = 180.0
_BACKLOG = 1000  # entries that may wait: the producer need not run far ahead while a driver starts


class Server:
    """A server that keeps confirmed writes, and has the same port after every restart."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.port = servers.free_port()
        options = f"--port {self.port} --appendonly yes --appendfsync always"
        words = [*options.split(), "--dir", str(directory), "--save", ""]
        program = [tools.needed("redis-server")] if kind == "redis" else [sys.executable, "-m", "engine"]
        self._command = servers.tied_to_us([*program, *words])
        self._output = directory / "output.txt"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(
                self._command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        wait_for(self._answers, "the server to answer", 60)

    def _answers(self) -> bool:
        with suppress(redis.RedisError, OSError), self.client() as client:
            return bool(client.ping())
        return False

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, protocol=2)

    def has_lasting(self, client: redis.Redis) -> bool:
        """Return whether the client's writes survive any kill."""
        del client
        return True

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def check(self) -> None:
        """Do nothing: a single server has no copies to compare."""

    def stop(self) -> None:
        if self.process is not None:
            servers.stop(self.process)


def descendants(root: int) -> dict[int, str]:
    """Return a process's descendants with their command lines."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(stat[1]), []).append(int(entry.name))
    found: dict[int, str] = {}
    waiting = [root]
    while waiting:
        for child in parents.get(waiting.pop(), ()):
            with suppress(OSError):
                found[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
            waiting.append(child)
    return found


def kill_worker(driver: int, chance: random.Random) -> bool:
    """Kill a Python process of Spark below this driver, and return whether one was running."""
    workers = [pid for pid, line in descendants(driver).items() if "pyspark" in line and "java" not in line]
    if not workers:
        return False
    with suppress(ProcessLookupError):
        os.kill(chance.choice(workers), signal.SIGKILL)
    return True


class JobHere:
    """The job on a session of this process. Its workers can be killed, its driver cannot."""

    def __init__(self, spark: SparkSession, url: str, checkpoint: Path) -> None:
        self.pid = os.getpid()
        self.failures: list[str] = []
        self._spark = spark
        self._ended = threading.Event()
        arguments = (spark, url, str(checkpoint), self._ended, self.failures.append)
        self._thread = threading.Thread(target=copy, args=arguments, daemon=True)

    def start(self) -> None:
        register(self._spark)  # so that another thread may start queries
        self._thread.start()

    def has_ended(self) -> bool:
        """Return whether the job has ended by itself."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        self._ended.set()
        while self._thread.is_alive():
            for query in self._spark.streams.active:
                query.stop()
            self._thread.join(0.1)


class Job:
    """The driver as a process. It can be killed and restarted, each time with another parallelism."""

    def __init__(self, url: str, checkpoint: Path, log: Path, mode: str, replicas: int) -> None:
        self._command = [sys.executable, "-m", "tests.chaos.job", url, str(checkpoint), mode, str(replicas)]
        self._moments = ("before", "after") if mode == "exactlyOnce" else ("before", "within", "after")
        self._starts = 0
        self._log = log
        self._directory = log.parent
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def failures(self) -> list[str]:
        return [line[6:] for line in self._log.read_text().splitlines() if line[:6] == "again "]

    def start(self) -> None:
        self._starts += 1
        command = [*self._command, str(1 + self._starts % 3)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, DIRECTORY: str(self._directory)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def has_ended(self) -> bool:
        """Return whether the job has ended by itself."""
        return self.process.poll() is not None

    @contextmanager
    def held_in_commit(self, chance: random.Random) -> Iterator[str]:
        """Pause the driver at the given moment of its commit until the context ends."""
        moment = chance.choice(self._moments)
        order, held = self._directory / "hold", self._directory / "held"
        order.write_text(moment)
        try:
            wait_for(held.exists, f"the driver to come to the moment {moment!r} of a commit", _PATIENCE)
            yield moment
        finally:
            # In this order: a driver that continues must not find the file `hold` and stop again.
            order.unlink()
            held.unlink(missing_ok=True)

    def kill(self) -> None:
        """Kill the driver: its Python, its JVM, and the processes they have started."""
        for pid in [self.pid, *descendants(self.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(30)
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def stop(self) -> None:
        if self.has_ended():
            return
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.kill()


class Producer(threading.Thread):
    """Adds entries with explicit IDs, so that an entry whose reply was lost is not added twice."""

    def __init__(self, server: Server | Family) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._ended = threading.Event()
        self.count = 0

    def run(self) -> None:
        client: redis.Redis | None = None
        while not self._ended.is_set():
            try:
                # After any error the server is looked up again: it may be another one.
                client = client or self._server.client()
                if self._is_added(client):
                    continue
            except (redis.RedisError, OSError):
                pass
            if client is not None:
                client.close()
                client = None
            time.sleep(0.01)
        if client is not None:
            client.close()

    def _is_added(self, client: redis.Redis) -> bool:
        """Add the next entry, or wait briefly for the job; return False if the call must be repeated."""
        n = self.count
        if n % 100 == 0 and n - client.xlen("out") > _BACKLOG:
            time.sleep(0.05)
            return True
        try:
            client.xadd("in", {"n": n, "text": f"entry {n}" * (n % 7)}, id=f"{n + 1}-1")
        except redis.ResponseError as refusal:
            if "equal or smaller" not in str(refusal):
                return False
        if not self._server.has_lasting(client):
            return False
        self.count += 1
        if n % 10 == 0:
            time.sleep(0.02)
        return True

    def end(self) -> None:
        self._ended.set()
        self.join(60)


@dataclass
class Report:
    """Statistics: kills by target, number of failovers, number of entries, and the job's output if it failed."""

    kills: Counter[str] = field(default_factory=Counter)
    masters: int = 0
    entries: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0


@contextmanager
def _setting(
    kind: str, mode: str, spark: SparkSession | None
) -> Iterator[tuple[Server | Family, FaultProxy | None, Job | JobHere, Producer]]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ps-chaos-")))
        server: Server | Family
        between: FaultProxy | None = None
        if kind == "family":
            server = stack.enter_context(watched_family())
            url = server.url
        else:
            (directory / "server").mkdir()
            server = Server(kind, directory / "server")
            server.start()
            stack.callback(server.stop)
            between = stack.enter_context(proxy(server.port))
            url = f"redis://127.0.0.1:{between.port}"
        job: Job | JobHere
        if spark is None:
            job = Job(url, directory / "checkpoint", directory / "job.txt", mode, int(kind == "family"))
        else:
            job = JobHere(spark, url, directory / "checkpoint")
        job.start()
        stack.callback(job.stop)
        producer = Producer(server)
        producer.start()
        stack.callback(producer.end)
        yield server, between, job, producer


def somewhere(chance: random.Random) -> int:
    """Return a random number of bytes, after which the proxy cuts: usually within the first commands, sometimes after
    several batches.
    """
    return chance.choice((chance.randint(1, 200), chance.randint(1, 5_000), chance.randint(1, 300_000)))


def plan(kind: str, kills: int, chance: random.Random) -> list[str]:
    """Return random targets. In a family, at least every third target is the master, at varying
    positions in the order.
    """
    targets = FAMILY_TARGETS if kind == "family" else TARGETS
    drawn = chance.choices([*targets], weights=[*targets.values()], k=kills)
    if kind == "family":
        others = [at for at, target in enumerate(drawn) if target not in _MASTERS]
        missing = max(-(-kills // 3) - (kills - len(others)), 0)
        for at in chance.sample(others, missing):
            drawn[at] = chance.choice(_MASTERS)
    return drawn


def run(
    kind: str,
    plan: list[str],
    seed: int,
    mode: str = "exactlyOnce",
    say: Any = lambda _: None,
    spark: SparkSession | None = None,
) -> Report:
    """Kill the planned targets in order, each at a random moment; then wait until all entries are copied, and compare.

    The job has a driver of its own, or runs `exactlyOnce` on the given session, whose driver cannot be killed.
    """
    chance = random.Random(seed)
    report = Report()
    begun = time.monotonic()
    with _setting(kind, mode, spark) as (server, between, job, producer):
        for number, target in enumerate(plan):
            killed = target
            _wait_for_progress(server, job)
            time.sleep(chance.uniform(0, 0.7))
            if target == "connection":
                assert between is not None
                between.cut_after(somewhere(chance))
                wait_for(lambda: not between.pending_cut(), "the cut", _PATIENCE)
            elif target == "worker":
                wait_for(lambda: kill_worker(job.pid, chance), "a worker to kill", _PATIENCE)
            elif target in ("server", "master"):
                server.kill()
                server.start()
            elif target == "master in commit":
                assert isinstance(job, Job)
                with job.held_in_commit(chance) as moment:
                    server.kill()
                killed = f"master in commit ({moment})"
                server.start()
            else:
                assert isinstance(job, Job)
                if target == "commit":
                    with job.held_in_commit(chance) as moment:
                        job.kill()
                    killed = f"commit ({moment})"
                else:
                    job.kill()
                job.start()
            report.kills[killed] += 1
            say(f"{kind}: {number + 1} of {len(plan)}: {killed}; {producer.count} entries so far")
        producer.end()
        report.entries = producer.count
        with server.client() as client:
            wait_for(lambda: _all_through(client, producer.count), "all entries to come through", _PATIENCE)
            job.stop()
            _compare(client, producer.count)
        server.check()
        if isinstance(server, Family):
            report.masters = server.masters_killed
            wanted = sum(target in _MASTERS for target in plan)
            assert 0 < wanted == report.masters, f"{report.masters} masters were killed, not {wanted}"
        report.failures = job.failures
    report.seconds = time.monotonic() - begun
    return report


def _length(server: Server | Family) -> int:
    with suppress(redis.RedisError, OSError), server.client() as client:
        return int(client.xlen("out"))
    return -1


def _wait_for_progress(server: Server | Family, job: Job | JobHere) -> None:
    before = _length(server)
    wait_for(lambda: job.has_ended() or _length(server) > before, "entries to come through", _PATIENCE)
    assert not job.has_ended(), "the driver has ended by itself"


def _all_through(client: redis.Redis, count: int) -> bool:
    if client.xlen("out") < count:
        return False
    (group,) = client.xinfo_groups("in")
    return bool(group["pending"] == 0)


def _compare(client: redis.Redis, count: int) -> None:
    seen = Counter(int(fields[b"n"]) for _, fields in client.xrange("out"))
    expected = set(range(count))
    doubled = sorted(n for n, times in seen.items() if times > 1)
    assert set(seen) == expected, (
        f"lost {sorted(expected - set(seen))[:20]}, foreign {sorted(set(seen) - expected)[:20]}"
    )
    assert not doubled, f"{len(doubled)} entries came twice: {doubled[:20]}"
    (group,) = client.xinfo_groups("in")
    assert group["pending"] == 0, group
