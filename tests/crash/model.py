"""A client's model of its keys: the sent steps, the required reply to each, and the state after each.

No other client uses the keys of a client, and its commands have explicit IDs, so everything except times is known
beforehand. The model is therefore the core itself, without a disk. A step is one command or a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from engine.core.dispatch import Core
from engine.core.streams.stream import Stream
from engine.settings.config import Config
from engine.wire.encode import encoded

Argv = list[bytes]
Step = list[Argv]
GROUP = b"g"
CONSUMERS = (b"c1", b"c2", b"c3")


def _words(*words: Any) -> Argv:
    return [word if isinstance(word, bytes) else str(word).encode() for word in words]


class World:
    """A core whose keys can be copied."""

    def __init__(self, values: Iterable[tuple[bytes, Any]] = ()) -> None:
        self.core = Core(Config())
        self.session = self.core.open_session(0)
        self.now_us = 1_700_000_000_000_000
        self.core.changes.set_time(self.now_us)
        for key, value in values:
            self.core.databases[0].add(key, value.copy() if isinstance(value, Stream) else value)

    def fork(self) -> World:
        """Return a copy of this world."""
        return World((key, value) for key, value, _ in self.core.databases[0].items())

    def run(self, step: Step) -> list[bytes]:
        """Run the commands of a step and return their replies."""
        self.now_us += 1000
        return [encoded(self.core.execute(self.session, argv, self.now_us)) for argv in step]


class Client:
    """One client's next steps, and the check of whether a server's state can be their result."""

    def __init__(self, number: int, seed: int) -> None:
        self.number = number
        self.random = Random(seed)
        self.key, self.other = b"own:%d" % number, b"also:%d" % number
        self.next_id = 1
        #: States before the listed steps and after all of them.
        self.before = World()
        self.after = World()
        self.steps: list[Step] = []
        self.acknowledged = 0

    def next_step(self) -> tuple[Step, list[bytes]]:
        """Return a step and its required reply."""
        step = self.draw()
        replies = self.after.run(step)
        self.steps.append(step)
        return step, replies

    def _known(self) -> list[bytes]:
        stream = next((value for key, value, _ in self.after.core.databases[0].items() if key == self.key), None)
        known = stream.ids(0, 1 << 128) if isinstance(stream, Stream) else []
        some = self.random.sample(known, min(len(known), 3))
        return [b"%d-%d" % (entry_id >> 64, entry_id & ((1 << 64) - 1)) for entry_id in some] or [b"1-1"]

    def _add(self, key: bytes, *options: Any) -> Argv:
        self.next_id += self.random.randrange(1, 3)
        value = self.random.choice((b"v", b"x" * 100, b"a\r\nb"))
        return _words("XADD", key, *options, f"{self.next_id}-1", "n", self.next_id, "v", value)

    def draw(self) -> Step:
        random, key = self.random, self.key
        consumer = random.choice(CONSUMERS)
        if len(self.steps) + self.next_id == 1:
            return [_words("XGROUP", "CREATE", key, GROUP, "0", "MKSTREAM")]
        kind = random.randrange(15)
        if kind < 4:
            return [self._add(key)]
        if kind == 4:
            return [self._add(key, "MAXLEN", random.randrange(20, 60))]
        if kind == 5:
            return [
                _words("MULTI"),
                self._add(key),
                self._add(self.other),
                _words("INCR", b"count:%d" % self.number),
                _words("EXEC"),
            ]
        if kind == 6:
            # The command is rejected and must leave no trace.
            return [_words("XADD", key, "0-1", "never", "there")]
        if kind == 7:
            return [_words("XTRIM", key, "MAXLEN", random.randrange(10, 60))]
        if kind == 8:
            return [_words("XDEL", key, *self._known())]
        if kind in (9, 10):
            count = random.randrange(1, 9)
            return [_words("XREADGROUP", "GROUP", GROUP, consumer, "COUNT", count, "STREAMS", key, ">")]
        if kind == 11:
            return [_words("XACK", key, GROUP, *self._known())]
        if kind == 12:
            return [_words("XCLAIM", key, GROUP, consumer, 0, *self._known())]
        if kind == 13:
            # The consumer's pending records are removed with it, including those of deleted entries.
            return [_words("XGROUP", "DELCONSUMER", key, GROUP, consumer)]
        return [_words("XADD", self.other, "MAXLEN", "50", f"{self.next_id}-{len(self.steps) + 2}", "f", "v")]

    # -- after a crash ------------------------------------------------------------------------------------------------

    def questions(self) -> list[Argv]:
        """Return queries of the current state, starting with those that reveal the most for their cost."""
        keys = (self.key, self.other)
        found = [_words("GET", b"count:%d" % self.number)]
        found += [_words("XINFO", subcommand, key) for subcommand in ("STREAM", "GROUPS") for key in keys]
        found += [_words("XINFO", "CONSUMERS", self.key, GROUP)]
        found += [_words("XRANGE", key, "-", "+") for key in keys]
        return found + [_words("XPENDING", key, GROUP, "-", "+", "1000000") for key in keys]

    def settle(self, answers: list[Any], comparable: Any, at_least: int) -> int:
        """Return how many steps, at least ``at_least``, were applied, and continue from there.

        The number follows from ``answers``, the replies to the queries. Raise AssertionError if no number fits.
        """
        world = self.before.fork()
        done = 0
        for done, step in enumerate(self.steps[:at_least], 1):  # noqa: B007
            world.run(step)
        questions = self.questions()
        closest, difference = -1, ""
        for count in range(done, len(self.steps) + 1):
            if count > done:
                world.run(self.steps[count - 1])
            for asked, (argv, answer) in enumerate(zip(questions, answers, strict=True)):
                expected = comparable(argv, world.run([argv])[0])
                if expected != answer:
                    if asked > closest:
                        closest, difference = asked, f"after {count} steps {argv} would be {expected}, is {answer}"
                    # There may be thousands of candidate steps.
                    break
            else:
                self.before, self.after = world.fork(), world.fork()
                self.steps, self.acknowledged = [], 0
                return count
        known = f"{at_least} steps acknowledged of {len(self.steps)}"
        raise AssertionError(f"client {self.number}: {known}; {difference}")
