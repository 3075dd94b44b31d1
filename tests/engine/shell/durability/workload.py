"""Random commands of every kind from a seed, and the state of a core as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from engine.core.dispatch import Core
from engine.core.protocol.replies import CommandError
from engine.core.streams import segment
from engine.core.streams.compressed import packed
from engine.core.streams.packer import pack
from engine.core.streams.stream import Stream
from tests.differential.grammar import FAMILIES, Grammar, Step
from tests.harness.replay import NOW_US, new_core, state


class Driver:
    """Runs random commands on a core."""

    def __init__(self, core: Core, seed: int) -> None:
        self.core = core
        self.random = Random(seed)
        self._grammar = Grammar(self.random, {*FAMILIES, "newer"})
        self._drawn: list[Step] = []
        self.now_us = NOW_US
        self.session = core.open_session(NOW_US)

    def run(self, *words: Any) -> Any:
        """Run one command at the current time."""
        argv = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        return self.core.execute(self.session, argv, self.now_us)

    def steps(self, count: int) -> Iterator[list[bytes]]:
        """Run ``count`` random commands; yield each one after it has run."""
        for _ in range(count):
            self.now_us += self.random.choice((0, 0, 1000, 7000))
            argv = self.draw()
            self.core.execute(self.session, argv, self.now_us)
            yield argv

    def drive(self, count: int) -> None:
        """Run ``count`` random commands."""
        for _ in self.steps(count):
            pass

    def draw(self) -> list[bytes]:
        """Return another random command."""
        if not self._drawn:
            self._drawn = self._grammar.sequence(300)
        return [word.encode() for word in self._drawn.pop(0)[1]]


def driven(seed: int, count: int = 300) -> Core:
    """Return a core after ``count`` random commands, with its effects recorded."""
    core = new_core()
    Driver(core, seed).drive(count)
    return core


@contextmanager
def small_segments() -> Iterator[None]:
    """Use segments of at most five entries, and chunks of 150 bytes, so that small data has many of both."""
    sizes = segment.SEGMENT_BYTES, segment.SEGMENT_ENTRIES, packed.CHUNK_BYTES
    segment.SEGMENT_BYTES, segment.SEGMENT_ENTRIES, packed.CHUNK_BYTES = 600, 5, 150
    try:
        yield
    finally:
        segment.SEGMENT_BYTES, segment.SEGMENT_ENTRIES, packed.CHUNK_BYTES = sizes


def freeze(core: Core, as_columns: bool = False) -> None:
    """Compress all sealed segments, as if they had become cold."""
    waiting = len(core.streams.storage.sealed)
    for cold in core.streams.storage.sealed.pop(waiting, waiting)[0]:
        cold.body = pack(cold.plain, core.streams.storage.cache, as_columns)


def everything(core: Core) -> dict[str, Any]:
    """Return all data of a core, including details that clients rarely see."""
    details: dict[Any, Any] = {}
    for db in core.databases:
        for key, value, _ in db.items():
            if isinstance(value, Stream):
                producers = value.producers
                known = None
                if producers is not None:
                    known = (
                        producers.duration,
                        producers.maxsize,
                        producers.added,
                        producers.duplicates,
                        {name: list(sent.items()) for name, sent in producers.by_producer.items()},
                    )
                numbers = {
                    name: [(consumer.name, consumer.number) for consumer in group.consumers.values()]
                    for name, group in value.groups.items()
                }
                details[db.index, key] = (known, numbers)
    return {"state": state(core, times=True), "close": details}


def empty_core() -> Core:
    """Return an empty core for loading."""
    core = new_core()
    core.changes.recording = False
    core.changes.replaying = True
    return core


def loaded(core: Core, now_us: int) -> Core:
    """End the loading of a core at the time ``now_us``, and return the core."""
    core.changes.replaying = False
    core.changes.set_time(now_us)
    return core


def errors(reply: Any) -> bool:
    """Return whether a reply is an error."""
    return isinstance(reply, CommandError)
