"""Content of servers before a command is measured. Entries have two fields, and the IDs 1-1, 2-1, ...

A scene is prepared on a new server. ``Bench.scaled`` reduces its sizes for a quick run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from benchmarks.engine.cases import KEY
from benchmarks.engine.client import Connection, command
from benchmarks.servers import Server, redis_command, running

T = TypeVar("T")

GROUP, CONSUMER = "g", "c"
STRINGS = 1_000_000
LONG_KEYS = 100_000
CONSUMERS = 200_000
_PAGE = 1000
_READ = 10_000


@dataclass
class Bench:
    """A server being prepared, and the scale of its content."""

    server: Server
    connection: Connection
    scale: float
    stack: ExitStack
    #: The last reply to DUMP, for RESTORE.
    dumped: bytes = b""

    def scaled(self, count: int) -> int:
        """Return a size at this scale."""
        return max(int(count * self.scale), 1)


@dataclass(frozen=True)
class Scene:
    """Content of a server: the server's command-line flags, and the function that adds the content."""

    name: str
    prepare: Callable[[Bench], None]
    flags: tuple[str, ...] = field(default=())


def batched(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items in lists of a thousand."""
    rest = iter(items)
    while page := list(islice(rest, _PAGE)):
        yield page


def send(bench: Bench, commands: Iterable[bytes], lines: int = 1) -> None:
    """Run commands, a thousand per write; each reply has ``lines`` lines."""
    for page in batched(commands):
        bench.connection.lines(b"".join(page), lines * len(page))


def add_entries(bench: Bench, entries: int) -> None:
    """Add a stream of ``entries`` entries, scaled."""
    numbers = range(1, bench.scaled(entries) + 1)
    adds = (
        command(
            "XADD", KEY, f"{number}-1", "sensor-id", 1000 + number % 9000, "temperature", f"{number % 300 / 10:.1f}"
        )
        for number in numbers
    )
    send(bench, adds, lines=2)


def stream(entries: int) -> Callable[[Bench], None]:
    """Return the preparation of a stream and a group that has read nothing."""

    def prepare(bench: Bench) -> None:
        add_entries(bench, entries)
        bench.connection.reply(command("XGROUP", "CREATE", KEY, GROUP, 0))

    return prepare


def pending(entries: int) -> Callable[[Bench], None]:
    """Return the preparation of a stream whose entries are all pending for one consumer."""

    def prepare(bench: Bench) -> None:
        stream(entries)(bench)
        read = command("XREADGROUP", "GROUP", GROUP, CONSUMER, "COUNT", _READ, "STREAMS", KEY, ">")
        for _ in range(0, bench.scaled(entries), _READ):
            bench.connection.whole(read)

    return prepare


def consumers(bench: Bench) -> None:
    """Add a group with many consumers."""
    bench.connection.reply(command("XGROUP", "CREATE", KEY, GROUP, 0, "MKSTREAM"))
    create = (
        command("XGROUP", "CREATECONSUMER", KEY, GROUP, f"consumer-{number}")
        for number in range(bench.scaled(CONSUMERS))
    )
    send(bench, create)


def strings(bench: Bench) -> None:
    """Add keys with short strings."""
    sets = (command("SET", f"key:{number}", f"value-{number}") for number in range(bench.scaled(STRINGS)))
    send(bench, sets)


def expiring(bench: Bench) -> None:
    """Add keys with short strings that expire in an hour."""
    sets = (
        command("SET", f"key:{number}", f"value-{number}", "EX", 3600 + number % 600)
        for number in range(bench.scaled(STRINGS))
    )
    send(bench, sets)


def long_keys(bench: Bench) -> None:
    """Add keys that a pattern with many stars rejects only after very many partial matches."""
    sets = (command("SET", "a" * 40 + str(number), "value") for number in range(bench.scaled(LONG_KEYS)))
    send(bench, sets)


def subscriber(bench: Bench) -> None:
    """Subscribe a client to a pattern of 200 kB."""
    other = bench.stack.enter_context(Connection(bench.server.port))
    other.lines(command("PSUBSCRIBE", "*a" * bench.scaled(100_000) + "b"), 6)


def hash_of_fields(bench: Bench) -> None:
    """Add a hash of a million fields."""
    numbers = range(bench.scaled(STRINGS))
    for page in batched(numbers):
        fields = [word for number in page for word in (f"field-{number}", number)]
        bench.connection.lines(command("HSET", "hash", *fields), 1)


def followed_by_redis(bench: Bench) -> bytes:
    """Start a redis-server that follows the server; return a command with an immediate reply."""
    start = redis_command()
    if start is not None:
        bench.stack.enter_context(running("replica", [*start, "--replicaof", f"127.0.0.1 {bench.server.port}"]))
    return command("PING")


def nothing(_bench: Bench) -> None:
    """Leave the server empty."""


def following_redis(entries: int) -> Callable[[Bench], bytes]:
    """Return a function for the command that makes the server follow a redis-server with this many pending entries."""

    def request(bench: Bench) -> bytes:
        start = redis_command()
        if start is None:
            return command("PING")
        server = bench.stack.enter_context(running("master", [*start, "--repl-diskless-sync-delay", "0"]))
        connection = bench.stack.enter_context(Connection(server.port))
        pending(entries)(Bench(server, connection, bench.scale, bench.stack))
        return command("REPLICAOF", "127.0.0.1", server.port)

    return request
