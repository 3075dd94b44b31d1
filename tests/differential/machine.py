"""Running a sequence on a real redis-server and on the engine, and comparing step by step.

Before a command that reads or claims as a consumer, both sides create that consumer. The command itself would create it
at different moments in different releases. After each trim the counters of the stream are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from tests import servers
from tests.differential.exclusions import ENDINGS, same
from tests.differential.grammar import Grammar, Step
from tests.differential.shrink import shrink
from tests.differential.sides import CoreSide, ServerSide, exact_trims
from tests.harness.replies import Error


@dataclass(frozen=True)
class Difference:
    """Two different replies to the last of ``steps``."""

    proto: int
    steps: list[Step]
    reply: Any
    expected: Any

    def __str__(self) -> str:
        lines = [f"RESP{self.proto}, {len(self.steps)} steps; the last one differs:"]
        lines += [f"  {client}> {' '.join(_shown(word) for word in words)}" for client, words in self.steps]
        return "\n".join([*lines, f"  engine: {self.reply!r}", f"  redis:  {self.expected!r}"])


def _shown(word: str) -> str:
    return word if word and word.isprintable() and " " not in word else repr(word)


def prepared(steps: list[Step]) -> list[Step]:
    """Return the steps, with consumers created before their use, and a query of the stream after each trim."""
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
    """Return the keys that an XREADGROUP reads, each with its group and consumer."""
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
    """Both sides in one protocol: the real server, and the core or, with ``over_tcp``, an engine in a process."""

    def __init__(self, real: servers.Running, proto: int, over_tcp: servers.Running | None = None) -> None:
        self.proto = proto
        self._real = ServerSide(real, proto)
        self._engine: CoreSide | ServerSide = (
            CoreSide(self._real, proto) if over_tcp is None else ServerSide(over_tcp, proto)
        )
        #: Numbers of compared commands, of error replies, and of sequences ended by an exclusion.
        self.commands = self.errors = self.ended = 0
        #: Commands that each client has queued since MULTI.
        self._queued: list[list[list[bytes]]] = [[], []]

    def close(self) -> None:
        self._real.close()
        self._engine.close()

    def run(self, steps: list[Step], plain: bool = False) -> Difference | None:
        """Run the steps on both sides, starting empty; return the first difference or None.

        ``plain`` is true if the steps delete nothing.
        """
        done = prepared(steps)
        if not self._engine.automatic_ids:
            done = [(client, words) for client, words in done if "*" not in words]
        expected = self._real.replies(done)
        replies = self._engine.replies(done, expected)
        self._queued = [[], []]
        for position, (client, words) in enumerate(done):
            self.commands += 1
            self.errors += isinstance(replies[position], Error)
            argv = [word.encode() for word in words]
            verdict = self._verdict(client, argv, replies[position], expected[position], plain)
            if verdict == "excluded":
                self.ended += 1
                return None
            if verdict == "different":
                return Difference(self.proto, done[: position + 1], replies[position], expected[position])
        return None

    def _verdict(self, client: int, argv: list[bytes], reply: Any, expected: Any, plain: bool) -> str:
        """Return ``same``, ``excluded`` or ``different``. Replies of EXEC are compared as those of the
        queued commands.
        """
        queue = self._queued[client]
        if expected == b"QUEUED" and reply == expected:
            queue.append(argv)
            return "same"
        pairs = [(argv, reply, expected)]
        if argv[0].upper() in (b"EXEC", b"DISCARD"):
            queued, self._queued[client] = queue, []
            if isinstance(reply, list) and isinstance(expected, list) and len(reply) == len(expected) == len(queued):
                pairs = list(zip(queued, reply, expected, strict=True))
        for words, part, expected_part in pairs:
            if not same(words, part, expected_part, plain):
                return (
                    "excluded" if any(ending.applies(words, part, expected_part) for ending in ENDINGS) else "different"
                )
        return "same"


@contextmanager
def machines(real: servers.Running, over_tcp: servers.Running | None = None) -> Iterator[list[Machine]]:
    """Yield a machine for each protocol."""
    with ExitStack() as stack:
        stack.enter_context(exact_trims(real))
        both = [Machine(real, proto, over_tcp) for proto in (2, 3)]
        for machine in both:
            stack.callback(machine.close)
        yield both


def search(machine: Machine, seed: str, families: set[str], length: int) -> Difference | None:
    """Run the sequence of ``seed``; return the shrunk difference, or None."""
    grammar = Grammar(Random(seed), families)
    steps = grammar.sequence(length)
    difference = machine.run(steps, grammar.plain)
    if difference is None:
        return None
    return shrink(steps, difference, lambda fewer: machine.run(fewer, grammar.plain))[1]
