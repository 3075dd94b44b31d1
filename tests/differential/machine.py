"""Runs a sequence on the core and on a real redis-server, compares step by step, and shrinks what differs.

One clock: the real server goes first; where it made an ID from its time, the core is given that time for that step.
Before a command that reads or claims as a consumer, both sides make that consumer: releases differ in when they would
do it themselves.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from tests import servers
from tests.differential.exclusions import ENDINGS, same
from tests.differential.grammar import Grammar, Step
from tests.differential.shrink import shrink
from tests.harness.clients import SocketClient
from tests.harness.kinds import Clock, CoreServer
from tests.harness.replies import Error

#: Nodes are kept small, so that short sequences fill several.
NODE_ENTRIES = 4


@dataclass(frozen=True)
class Difference:
    """Where a sequence's replies differ: at ``position`` in ``steps``, the last one."""

    proto: int
    steps: list[Step]
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        lines = [f"RESP{self.proto}, {len(self.steps)} steps; the last one differs:"]
        lines += [f"  {client}> {' '.join(_shown(word) for word in words)}" for client, words in self.steps]
        return "\n".join([*lines, f"  engine: {self.ours!r}", f"  redis:  {self.theirs!r}"])


def _shown(word: str) -> str:
    return word if word and word.isprintable() and " " not in word else repr(word)


def prepared(steps: list[Step]) -> list[Step]:
    """The steps, with the consumers made before they are used, and a look at the nodes after each trim."""
    result: list[Step] = []
    for client, words in steps:
        name = words[0].upper()
        if name in ("XCLAIM", "XAUTOCLAIM") and len(words) > 3:
            result.append((client, ("XGROUP", "CREATECONSUMER", words[1], words[2], words[3])))
        elif name == "XREADGROUP":
            result += [(client, ("XGROUP", "CREATECONSUMER", key, *who)) for key, who in _readers(words)]
        result.append((client, words))
        if name == "XTRIM" or (name == "XADD" and {"MAXLEN", "MINID"} & {word.upper() for word in words}):
            result += [(client, ("XINFO", "STREAM", key)) for key in words[1:2]]
    return result


def _readers(words: tuple[str, ...]) -> list[tuple[str, tuple[str, str]]]:
    """The keys that an XREADGROUP reads, each with its group and consumer."""
    who: tuple[str, str] | None = None
    at = 1
    while at < len(words):
        word = words[at].upper()
        if word == "STREAMS":
            break
        if word == "GROUP" and at + 2 < len(words):
            who = words[at + 1], words[at + 2]
        at += {"GROUP": 3, "COUNT": 2, "BLOCK": 2}.get(word, 1)
    keys = words[at + 1 :]
    return [(key, who) for key in dict.fromkeys(keys[: len(keys) // 2])] if who else []


class Machine:
    """Both sides in one protocol."""

    def __init__(self, running: servers.Running, proto: int) -> None:
        self.proto = proto
        self._clients = [SocketClient(running.connect(), proto, None) for _ in range(2)]
        self._clients[0].expect(("CONFIG", "SET", "stream-node-max-entries", NODE_ENTRIES), "OK")
        #: Commands that were run and compared, how many of them answered with an error, sequences cut by an exclusion.
        self.commands = self.errors = self.ended = 0
        #: What each client has queued since MULTI.
        self._queued: list[list[list[bytes]]] = [[], []]

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def run(self, steps: list[Step], plain: bool = False) -> Difference | None:
        """Run the steps on both sides, from empty; where they first differ, or None. ``plain``: nothing is deleted."""
        done = prepared(steps)
        began = int(time.time() * 1000)
        theirs = self._real(done)
        ended = int(time.time() * 1000)
        self._queued = [[], []]
        core = CoreServer(self.proto)
        core.clock = Clock(began * 1000)
        core.core.config.change([(b"stream-node-max-entries", b"%d" % NODE_ENTRIES)])
        ours_clients = [core.main, core.client()]
        for position, (client, words) in enumerate(done):
            if words[0].upper() in ("XADD", "EXEC"):
                core.clock.now_us = max(core.clock.now_us, _time_in(theirs[position], began, ended) * 1000)
            argv = [word.encode() for word in words]
            try:
                ours = ours_clients[client].run(*argv)
            except Exception as error:  # noqa: BLE001  (whatever it is, it is a difference, to be shrunk and shown)
                ours = error
            self.commands += 1
            self.errors += isinstance(ours, Error)
            verdict = self._verdict(client, argv, ours, theirs[position], plain)
            if verdict == "excluded":
                self.ended += 1
                return None
            if verdict == "same":
                continue
            return Difference(self.proto, done[: position + 1], ours, theirs[position])
        return None

    def _verdict(self, client: int, argv: list[bytes], ours: Any, theirs: Any, plain: bool) -> str:
        """``same``, ``excluded`` or ``different``. EXEC's replies are compared as those of the queued commands."""
        queue = self._queued[client]
        if theirs == b"QUEUED" and ours == theirs:
            queue.append(argv)
            return "same"
        pairs = [(argv, ours, theirs)]
        if argv[0].upper() in (b"EXEC", b"DISCARD"):
            queued, self._queued[client] = queue, []
            if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs) == len(queued):
                pairs = list(zip(queued, ours, theirs, strict=True))
        for words, mine, other in pairs:
            if not same(words, mine, other, plain):
                return "excluded" if any(one.applies(words, mine, other) for one in ENDINGS) else "different"
        return "same"

    def _real(self, steps: list[Step]) -> list[Any]:
        """The real server's replies. Runs of one client's commands are sent in one go."""
        for client in self._clients:
            client.run("RESET")
            if self.proto == 3:
                client.run("HELLO", "3")
        self._clients[0].expect("FLUSHALL", "OK")
        replies: list[Any] = []
        start = 0
        while start < len(steps):
            end = start
            while end < len(steps) and steps[end][0] == steps[start][0]:
                end += 1
            client = self._clients[steps[start][0]]
            client.send_all([words for _, words in steps[start:end]])
            replies += [client.receive() for _ in range(start, end)]
            start = end
        return replies


def _time_in(reply: Any, began: int, ended: int) -> int:
    """The time that the real server used, where an ID in its reply shows it; 0 otherwise."""
    for part in reply if isinstance(reply, list) else [reply]:
        if isinstance(part, bytes) and part.count(b"-") == 1:
            head = part.partition(b"-")[0]
            if head.isdigit() and began <= int(head) <= ended:
                return int(head)
    return 0


@contextmanager
def machines(running: servers.Running) -> Iterator[list[Machine]]:
    """A machine for each protocol."""
    both = [Machine(running, proto) for proto in (2, 3)]
    try:
        yield both
    finally:
        for machine in both:
            machine.close()


def search(machine: Machine, seed: str, families: set[str], length: int) -> Difference | None:
    """Run the sequence that ``seed`` gives; the shrunk difference, or None."""
    grammar = Grammar(Random(seed), families)
    steps = grammar.sequence(length)
    difference = machine.run(steps, grammar.plain)
    if difference is None:
        return None
    return shrink(steps, difference, lambda fewer: machine.run(fewer, grammar.plain))[1]
