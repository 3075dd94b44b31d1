"""Random commands of every kind from a seed, and the state of a core as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from engine.core.dispatch import Core
from engine.core.protocol import ids
from engine.core.protocol.replies import CommandError
from engine.core.streams import segment
from engine.core.streams.compressed import packed
from engine.core.streams.packer import pack
from engine.core.streams.stream import Stream
from tests.harness.replay import NOW_US, new_core, state

STREAMS = (b"s1", b"s2", b"s3")
GROUPS = (b"g1", b"g2")
CONSUMERS = (b"alice", b"bob", b"carol")


class Driver:
    """Runs random commands on a core."""

    def __init__(self, core: Core, seed: int) -> None:
        self.core = core
        self.random = Random(seed)
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

    def _some_ids(self, key: bytes, most: int = 4) -> list[bytes]:
        stream = next((value for name, value, _ in self.core.databases[0].items() if name == key), None)
        known = stream.ids(0, ids.MAX_ID) if isinstance(stream, Stream) else []
        if not known:
            return [b"1-1"]
        return [ids.text(entry_id) for entry_id in self.random.sample(known, min(most, len(known)))]

    def draw(self) -> list[bytes]:
        random = self.random
        key, group, consumer = random.choice(STREAMS), random.choice(GROUPS), random.choice(CONSUMERS)
        value = random.choice((b"", b"7", b"x" * 70, b"a\r\nb", bytes(range(256))))
        words: list[Any] = random.choice(
            [
                ["XADD", key, "*", "f", value],
                ["XADD", key, "*", "f", value, "g", b"%d" % random.randrange(10**6)],
                ["XADD", key, "*", "f", value],
                ["XADD", key, "*", "h", b"1"],
                ["XADD", key, "MAXLEN", "~", random.randrange(30), "*", "f", value],
                ["XADD", key, "MAXLEN", random.randrange(3, 30), "*", "f", value],
                ["XTRIM", key, "MAXLEN", random.randrange(40)],
                ["XTRIM", key, "MINID", "~", self._some_ids(key)[0]],
                ["XDEL", key, *self._some_ids(key)],
                ["XGROUP", "CREATE", key, group, random.choice(("0", "$"))],
                ["XGROUP", "CREATE", key, group, "0", "MKSTREAM"],
                ["XGROUP", "CREATECONSUMER", key, group, consumer],
                ["XGROUP", "SETID", key, group, self._some_ids(key)[0]],
                random.choice((["XGROUP", "DELCONSUMER", key, group, consumer], ["XGROUP", "DESTROY", key, group])),
                ["XREADGROUP", "GROUP", group, consumer, "COUNT", random.randrange(1, 9), "STREAMS", key, ">"],
                ["XREADGROUP", "GROUP", group, consumer, "STREAMS", key, ">"],
                ["XREADGROUP", "GROUP", group, consumer, "COUNT", "3", "STREAMS", key, "0"],
                ["XACK", key, group, *self._some_ids(key)],
                ["XCLAIM", key, group, consumer, 0, *self._some_ids(key)],
                ["XAUTOCLAIM", key, group, consumer, 0, "-", "COUNT", 3],
                ["SET", "text", value],
                ["APPEND", "text", b"more"],
                ["SET", "due", value, "PX", random.randrange(1, 10**7)],
                ["HSET", "hash", value, value, "n", random.randrange(9)],
                random.choice((["HDEL", "hash", "n"], ["HINCRBY", "hash", "n", random.randrange(9)])),
                ["XSETID", key, "99999999999999-0"] if random.random() < 0.05 else ["XLEN", key],
                ["MULTI"],
                ["EXEC"],
                ["EXEC"],
                *self._newer(key, group, value),
            ]
        )
        return [word if isinstance(word, bytes) else str(word).encode() for word in words]

    def _newer(self, key: bytes, group: bytes, value: bytes) -> list[list[Any]]:
        random = self.random
        some = self._some_ids(key)
        return [
            ["XNACK", key, group, random.choice(("SILENT", "FAIL", "FATAL")), "IDS", len(some), *some],
            ["XADD", key, "IDMP", "p", random.randrange(6), "*", "f", value],
            ["XADD", key, "IDMPAUTO", "q", "*", "f", value],
            ["XCFGSET", key, "IDMP-MAXSIZE", random.randrange(2, 5)] if random.random() < 0.3 else ["PING"],
            ["XDELEX", key, "ACKED", "IDS", len(some), *some],
            ["XACKDEL", key, group, "DELREF", "IDS", len(some), *some],
        ]


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
