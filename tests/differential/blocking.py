"""Sequences with a third client that waits for entries, compared with redis-server.

After each step both sides report whether the third client still waits, and which reply it got.
"""

from __future__ import annotations

import time
from random import Random
from typing import Any

from tests import servers
from tests.differential.exclusions import ENDINGS, same
from tests.differential.grammar import Grammar, Step
from tests.differential.machine import Difference, prepared
from tests.differential.shrink import shrink
from tests.differential.vocabulary import CONSUMERS, GROUPS, KEYS
from tests.harness.clients import Client, SocketClient
from tests.harness.core import Clock, CoreServer
from tests.harness.replies import ANY, Error
from tests.suite.waiting import wait_for

#: Number of the waiting client.
WAITER = 2
FAMILIES = {"stream", "group", "key", "transaction", "any_key"}


def _waiting_command(random: Random, top: str) -> tuple[str, ...]:
    count = ["COUNT", str(random.randint(1, 3))] if random.random() < 0.4 else []
    key = random.choice(KEYS)
    if random.random() < 0.5:
        return ("XREAD", *count, "BLOCK", "0", "STREAMS", key, random.choice(["$", "$", top]))
    noack = ["NOACK"] if random.random() < 0.2 else []
    who = random.choice(GROUPS), random.choice(CONSUMERS)
    return ("XREADGROUP", "GROUP", *who, *count, *noack, "BLOCK", "0", "STREAMS", key, ">")


def sequence(seed: str, length: int) -> list[Step]:
    """Return steps of two clients, with a command of the third one every few steps."""
    random = Random(seed)
    grammar = Grammar(random, FAMILIES)
    steps: list[Step] = []
    for step in grammar.sequence(length):
        if random.random() < 0.15:
            steps.append((WAITER, _waiting_command(random, grammar.id())))
        steps.append(step)
    # Automatic IDs would need a common clock; leading blanks are among the exclusions.
    return [(client, words) for client, words in steps if not any(word == "*" or word[:1] == " " for word in words)]


def _played(steps: list[Step], clients: list[Client]) -> list[tuple[Any, Any]]:
    """Return each step's reply, and the waiting client's reply after it.

    The server itself reports whether the client still waits.
    """
    results: list[tuple[Any, Any]] = []
    waiter = clients[WAITER]
    waits = False
    for client, words in steps:
        argv = [word.encode() for word in words]
        if client != WAITER:
            reply = clients[client].run(*argv)
            woken = waits and not waiter.blocked()
            waits = waits and not woken
            results.append((reply, waiter.receive() if woken else "nothing"))
        elif waits:
            results.append(("waits already", "nothing"))
        else:
            waiter.send(*argv)
            came, reply = wait_for(lambda: _answered(waiter), "the client to wait or to have a reply")
            waits = not came
            results.append((reply if came else "waits", "nothing"))
    return results


def _answered(waiter: Client) -> tuple[bool, Any] | None:
    came, reply = waiter.poll()
    return (came, reply) if came or waiter.blocked() else None


def _same_wake(words: tuple[str, ...], reply: Any, expected: Any) -> bool:
    if isinstance(reply, Error) and isinstance(expected, Error):
        # 7.0 has special errors for a key or a group deleted while a client waits; newer releases run the command
        # again.
        return expected.text.startswith(("UNBLOCKED", "NOGROUP the consumer group")) or reply == expected
    return reply == expected or (bool(words) and same([word.encode() for word in words], reply, expected))


def _served_by_the_key_alone(reply: Any, expected: Any) -> bool:
    """Return whether replies differ because a release before 7.2 only looks at the key that became ready.

    Newer releases run the whole command again. An older release sends no reply if the added data has disappeared by
    then, and does not notice that a key before it in the command now has another type.
    """
    if servers.redis_release().since("7.2"):
        return False
    found = list(expected.values()) if isinstance(expected, dict) else expected
    no_reply = reply == "nothing" and isinstance(found, list) and len(found) == 1 and found[0] in ([], [ANY, []])
    other_key = isinstance(reply, Error) and reply.text.startswith("WRONGTYPE") and isinstance(expected, list)
    return no_reply or other_key


def _creates_a_consumer(waiting: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Return whether ``words`` may replace the stream of a waiting XREADGROUP, on a release before 7.2.

    Newer releases run the XREADGROUP again, which creates its consumer in the new stream's group.
    """
    replaces = words[0].upper() in ("RENAME", "RENAMENX", "COPY", "RESTORE")
    return replaces and waiting[:1] == ("XREADGROUP",) and not servers.redis_release().since("7.2")


class BlockingMachine:
    """Both sides with a waiting client, in one protocol."""

    def __init__(self, real: servers.Running, proto: int) -> None:
        self._real = real
        self._proto = proto
        self.commands = 0
        self.wakes = 0

    def _real_results(self, steps: list[Step]) -> list[tuple[Any, Any]]:
        control = SocketClient(self._real.connect(), 2, None)
        clients = [SocketClient(self._real.connect(), self._proto, control) for _ in range(3)]
        try:
            control.expect("FLUSHALL", "OK")
            return _played(steps, list(clients))
        finally:
            for client in (*clients, control):
                client.close()

    def _engine_results(self, steps: list[Step]) -> list[tuple[Any, Any]]:
        core = CoreServer(self._proto)
        core.clock = Clock(time.time_ns() // 1000)
        return _played(steps, [core.main, core.client(), core.client()])

    def run(self, steps: list[Step]) -> Difference | None:
        """Run the steps on both sides; return the first difference, or None."""
        done = prepared(steps)
        expected, results = self._real_results(done), self._engine_results(done)
        waiting: tuple[str, ...] = ()
        for position, (_, words) in enumerate(done):
            self.commands += 1
            (reply, woken), (expected_reply, expected_wake) = results[position], expected[position]
            self.wakes += woken != "nothing"
            if reply == "waits":
                waiting = words
            argv = [word.encode() for word in words]
            equal = same(argv, reply, expected_reply) or words[0].upper() == "EXEC"
            if not equal and any(ending.applies(argv, reply, expected_reply) for ending in ENDINGS):
                return None
            if _served_by_the_key_alone(woken, expected_wake) or _creates_a_consumer(waiting, words):
                return None
            if not equal or not _same_wake(waiting, woken, expected_wake):
                return Difference(self._proto, done[: position + 1], results[position], expected[position])
        return None


def search(machine: BlockingMachine, seed: str, length: int = 60) -> Difference | None:
    """Run the sequence of ``seed``; return the shrunk difference, or None."""
    steps = sequence(seed, length)
    difference = machine.run(steps)
    return None if difference is None else shrink(steps, difference, machine.run)[1]
