"""Every command that changes data changes a replica in the same way: random commands on a master."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from tests import servers
from tests.differential.grammar import FAMILIES, Grammar, Step
from tests.differential.shrink import shrink
from tests.engine.shell.replication.pairs import AT_ONCE, redis_following, wait_until_up
from tests.servers.connection import Connection
from tests.servers.keyspaces import everything
from tests.suite import tools

pytestmark = pytest.mark.redis
SEQUENCES = int(os.environ.get("REPLICATION_EXAMPLES", "12"))
#: Commands that the grammars do not draw: commands of other types and databases, and the engine's own commands.
MORE: list[tuple[str, ...]] = [
    ("SET", "text", "v", "PX", "10000000"),
    ("APPEND", "text", "more"),
    ("INCRBY", "number", "5"),
    ("GETDEL", "text"),
    ("GETEX", "text", "PX", "9000000"),
    ("MSET", "text", "1", "number", "2"),
    ("SET", "text", "2", "IFNE", "1"),
    ("HSET", "hash", "f", "1", "g", "2"),
    ("HSETNX", "hash", "h", "3"),
    ("HINCRBY", "hash", "f", "5"),
    ("HDEL", "hash", "g"),
    ("COPY", "s", "s", "DB", "2", "REPLACE"),
    ("MOVE", "t", "1"),
    ("SWAPDB", "0", "2"),
    ("RENAME", "t", "u"),
    ("PEXPIRE", "u", "10000000"),
    ("SELECT", "3"),
    ("SELECT", "0"),
    ("DEL", "u"),
    ("FLUSHDB",),
    ("DUMP", "s"),
    ("PS.DELIVER", "s", "g", "a", "-", "+"),
    ("PS.DELIVER", "t", "g", "b", "-", "5", "TIME", "1000000"),
    ("PS.ACKRANGE", "s", "g", "-", "3"),
    ("PS.ACKRANGE", "t", "g", "-", "+"),
]


class Pair:
    """A master and its replica, which are compared after a sequence has run on the master.

    With ``other``, a second replica, the two replicas are compared with each other.
    """

    def __init__(self, master: servers.Running, replica: Connection, other: Connection | None = None) -> None:
        self._master = master
        self._replica = replica
        self._other = other

    def difference(self, steps: list[Step]) -> str | None:
        """Return the difference between replica and master after these steps, or None if they are equal."""
        with Connection(self._master) as main, Connection(self._master) as other:
            main.run("FLUSHALL")
            clients = [main, other]
            for client, words in steps:
                reply = clients[client].run(*words)
                if words[0] == "DUMP" and isinstance(reply, bytes):
                    main.run("RESTORE", "restored", 0, reply, "REPLACE")
            for client in clients:
                client.run("DISCARD")
            assert main.run("WAIT", 1 if self._other is None else 2, 20_000) >= (1 if self._other is None else 2)
            expected, actual = everything((self._other or main).run), everything(self._replica.run)
            if expected == actual:
                return None
            differing = {key for key in expected.keys() | actual.keys() if expected.get(key) != actual.get(key)}
            return "\n".join(f"{key}\n  {expected.get(key)}\n  {actual.get(key)}" for key in sorted(differing))

    def check(self, name: str, families: set[str]) -> None:
        """Check that the replica has the master's data after each random sequence of commands.

        If it differs, shorten the sequence as far as possible, and fail with the shortened sequence.
        """
        for number in range(SEQUENCES):
            steps = sequence(Random(f"{name}/{number}"), families)
            found = self.difference(steps)
            if found is not None:
                steps, found = shrink(steps, found, self.difference)
                shown = "\n".join(f"  {client}> {' '.join(words)}" for client, words in steps)
                pytest.fail(f"the replica differs after\n{shown}\n{found}")


def sequence(random: Random, families: set[str]) -> list[Step]:
    steps: list[Step] = []
    for step in Grammar(random, families).sequence(80):
        steps.append(step)
        if random.random() < 0.15:
            steps.append((step[0], random.choice(MORE)))
    if not servers.redis_release().since("8.8"):
        steps = [step for step in steps if step[1][0].upper() != "XNACK"]
    return steps


def families() -> set[str]:
    newer = tools.path_of("redis-server") is not None and servers.redis_release().since("8.6.2")
    return {*FAMILIES, "newer"} if newer else set(FAMILIES)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    tools.needed("redis-server")
    with servers.engine() as engine, redis_following(engine) as replica:
        yield Pair(engine, replica)


def test_a_replica_has_the_same_data_after_any_commands(pair: Pair) -> None:
    """After random commands on all types and databases, in transactions and not, a replica has equal keys, entries,
    counters, groups and pending entries.
    """
    pair.check("arrives", families())


@contextmanager
def engine_following(master: servers.Running) -> Iterator[Connection]:
    with servers.engine("--replicaof", f"{master.host} {master.port}") as running, Connection(running) as client:
        wait_until_up(client)
        yield client


def test_an_engine_equals_a_redis_as_a_replica() -> None:
    """With a real master, an engine has the same data as a real replica after random commands."""
    tools.needed("redis-server")
    with (
        servers.redis(*AT_ONCE) as master,
        redis_following(master) as other,
        engine_following(master) as replica,
    ):
        Pair(master, replica, other).check("follows", families())
