"""The measured commands, each with its scene: the content of the server before the command.

After a case that ``spoils`` its scene, the scene is prepared again on a new server. Redis lacks some commands, or has
them only in newer releases; if it replies with an error, its columns are empty.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.engine.cases import KEY
from benchmarks.engine.client import command
from benchmarks.stalls import scenes
from benchmarks.stalls.scenes import CONSUMER, GROUP, Bench, Scene

MILLION = 1_000_000
_LOG = ("--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")
#: Seconds during which background work of a command may affect other clients.
_BACKGROUND = 10.0


@dataclass(frozen=True)
class Case:
    """One command: its name in the table, and the function that makes the request on a prepared server."""

    name: str
    request: Callable[[Bench], bytes]
    spoils: bool = False
    #: Seconds after the reply that are shown in a separate row.
    after: float = 0.0


def _fixed(*words: str | int) -> Callable[[Bench], bytes]:
    return lambda _: command(*words)


def _every_tenth(count: int) -> Callable[[Bench], list[str]]:
    return lambda bench: [f"{10 * number + 1}-1" for number in range(bench.scaled(count))]


def _ids(count: int, *before: str | int) -> Callable[[Bench], bytes]:
    """Return a function for a command with every tenth ID, so that no two are adjacent."""
    chosen = _every_tenth(count)
    return lambda bench: command(*before, *chosen(bench))


def _counted_ids(count: int, *before: str | int) -> Callable[[Bench], bytes]:
    chosen = _every_tenth(count)
    return lambda bench: command(*before, "IDS", len(ids := chosen(bench)), *ids)


def _maxlen(left: int, *words: str) -> Callable[[Bench], bytes]:
    return lambda bench: command("XADD", KEY, *words, "MAXLEN", bench.scaled(left), "*", "field", "value")


def _restore(bench: Bench) -> bytes:
    if not bench.dumped:
        reply = bench.connection.reply(command("DUMP", KEY))
        bench.dumped = reply[reply.index(b"\n") + 1 : -2]
    return command("RESTORE", "restored", 0, bench.dumped, "REPLACE")


def _keys(bench: Bench, count: int) -> list[str]:
    return [f"key:{number}" for number in range(bench.scaled(count))]


def _new_fields(bench: Bench) -> bytes:
    return command("HSET", "hash", *(word for number in range(bench.scaled(100_000)) for word in (f"new-{number}", 1)))


def _renew_expiry(bench: Bench) -> bytes:
    return b"".join(command("PEXPIRE", key, 7_200_000) for key in _keys(bench, scenes.STRINGS))


def _expire_together(bench: Bench) -> bytes:
    """Return commands that make all keys expire together, about one second after the last command. The duration of the
    commands is estimated with a sample of the keys.
    """
    sample, keys = _keys(bench, scenes.STRINGS // 50), _keys(bench, scenes.STRINGS)
    begin = time.monotonic()
    scenes.send(bench, (command("PEXPIRE", key, 3_600_000) for key in sample))
    estimate = (time.monotonic() - begin) * len(keys) / len(sample)
    moment = int((time.time() + 1.2 * estimate + 1) * 1000)
    return b"".join(command("PEXPIREAT", key, moment) for key in keys)


def _transaction(bench: Bench) -> bytes:
    adds = [command("XADD", "other", "*", "field", number) for number in range(bench.scaled(100_000))]
    return command("MULTI") + b"".join(adds) + command("EXEC")


def _pipeline(bench: Bench) -> bytes:
    return b"".join(command("XADD", "other", "*", "field", number) for number in range(bench.scaled(200_000)))


def _read(count: int, position: str) -> Callable[[Bench], bytes]:
    return _fixed("XREADGROUP", "GROUP", GROUP, CONSUMER, "COUNT", count, "STREAMS", KEY, position)


LOGGED = Scene("a stream of a million, log on", scenes.stream(MILLION), _LOG)
PENDING = Scene("a stream of two million, all pending", scenes.pending(2 * MILLION))
COLD = Scene("a cold stream of two million", scenes.stream(2 * MILLION))
CONSUMERS = Scene("a group of 200,000 consumers", scenes.consumers)
STRINGS = Scene("a million strings", scenes.strings)
EXPIRING = Scene("a million strings that expire", scenes.expiring)
LONG_KEYS = Scene("100,000 keys", scenes.long_keys)
SUBSCRIBER = Scene("a subscriber to a pattern of 200 kB", scenes.subscriber)
HASH = Scene("a hash of a million", scenes.hash_of_fields)
EMPTY = Scene("an empty server", scenes.nothing)
REPLICA = Scene("a server that is to be a replica", scenes.nothing)

#: In the order in which they run. Most cases that spoil a scene come last, so that it is rarely prepared again.
CASES: list[tuple[Scene, list[Case]]] = [
    (
        EMPTY,
        [
            Case("PING (alone)", _fixed("PING"), after=2.0),
            Case("XADD, 200,000 in one write", _pipeline, spoils=True),
            Case("MULTI, 100,000 XADDs, EXEC", _transaction, spoils=True),
        ],
    ),
    (
        LOGGED,
        [
            Case("XREADGROUP of 10,000, log on", _read(10_000, ">")),
            Case("BGREWRITEAOF, a million entries", _fixed("BGREWRITEAOF"), after=_BACKGROUND),
            Case("PS.DELIVER of a million, log on", _fixed("PS.DELIVER", KEY, GROUP, CONSUMER, "-", "+"), spoils=True),
        ],
    ),
    (
        PENDING,
        [
            Case("XREADGROUP history of 1, two million pending", _read(1, "0")),
            Case("XREADGROUP history of 10,000", _read(10_000, "0")),
            Case("XREADGROUP history of all", _read(2 * MILLION, "0")),
            Case("XPENDING, the summary", _fixed("XPENDING", KEY, GROUP)),
            Case("XPENDING of two million", _fixed("XPENDING", KEY, GROUP, "-", "+", 2 * MILLION)),
            Case("XINFO STREAM FULL", _fixed("XINFO", "STREAM", KEY, "FULL")),
            Case("XCLAIM of 50,000", _ids(50_000, "XCLAIM", KEY, GROUP, "d", 0)),
            Case(
                "XAUTOCLAIM of 100,000, JUSTID",
                _fixed("XAUTOCLAIM", KEY, GROUP, "d", 0, "-", "COUNT", 100_000, "JUSTID"),
            ),
            Case("XNACK of 50,000", _counted_ids(50_000, "XNACK", KEY, GROUP, "FAIL")),
            Case("XACK of 100,000", _ids(100_000, "XACK", KEY, GROUP), spoils=True),
            Case("XDELEX DELREF of 100,000", _counted_ids(100_000, "XDELEX", KEY, "DELREF"), spoils=True),
            Case("XADD MAXLEN DELREF, the first", _maxlen(2 * MILLION, "DELREF")),
            Case("XADD MAXLEN DELREF, the next", _maxlen(2 * MILLION, "DELREF"), spoils=True),
            Case("PS.ACKRANGE of two million", _fixed("PS.ACKRANGE", KEY, GROUP, "-", "+"), spoils=True),
            Case(
                "XGROUP DELCONSUMER, two million pending",
                _fixed("XGROUP", "DELCONSUMER", KEY, GROUP, CONSUMER),
                spoils=True,
            ),
            Case("XGROUP DESTROY, two million pending", _fixed("XGROUP", "DESTROY", KEY, GROUP), spoils=True),
            Case("DEL, two million pending", _fixed("DEL", KEY), spoils=True, after=1.0),
        ],
    ),
    (
        COLD,
        [
            Case(
                "PS.SPLIT into 200,000 parts", lambda bench: command("PS.SPLIT", KEY, "-", "+", bench.scaled(200_000))
            ),
            Case("XRANGE of all, cold", _fixed("XRANGE", KEY, "-", "+")),
            Case("XREVRANGE of all, cold", _fixed("XREVRANGE", KEY, "+", "-")),
            Case("XINFO STREAM FULL COUNT 0", _fixed("XINFO", "STREAM", KEY, "FULL", "COUNT", 0)),
            Case("MEMORY USAGE SAMPLES 0", _fixed("MEMORY", "USAGE", KEY, "SAMPLES", 0)),
            Case("DUMP of a stream", _fixed("DUMP", KEY)),
            Case("RESTORE of a stream", _restore),
            Case("COPY of a stream", _fixed("COPY", KEY, "copied", "REPLACE")),
            Case("BGSAVE, two million entries", _fixed("BGSAVE"), after=_BACKGROUND),
            Case("a redis-server starts to follow it", scenes.followed_by_redis, spoils=True, after=2 * _BACKGROUND),
            Case(
                "XTRIM to the half", lambda bench: command("XTRIM", KEY, "MAXLEN", bench.scaled(MILLION)), spoils=True
            ),
            Case("XDEL of 100,000 cold entries", _ids(100_000, "XDEL", KEY), spoils=True),
            Case(
                "CONFIG SET appendonly yes",
                _fixed("CONFIG", "SET", "appendonly", "yes"),
                spoils=True,
                after=_BACKGROUND,
            ),
        ],
    ),
    (
        CONSUMERS,
        [
            Case("XINFO CONSUMERS of 200,000", _fixed("XINFO", "CONSUMERS", KEY, GROUP)),
            Case("XINFO STREAM FULL, 200,000 consumers", _fixed("XINFO", "STREAM", KEY, "FULL")),
        ],
    ),
    (
        STRINGS,
        [
            Case("KEYS * of a million", _fixed("KEYS", "*")),
            Case("SCAN COUNT a million", _fixed("SCAN", 0, "COUNT", MILLION)),
            Case("MGET of 100,000", lambda bench: command("MGET", *_keys(bench, 100_000))),
            Case("BGSAVE, a million strings", _fixed("BGSAVE"), after=_BACKGROUND),
            Case("DEL of 100,000 keys", lambda bench: command("DEL", *_keys(bench, 100_000)), spoils=True),
            Case("FLUSHALL of a million", _fixed("FLUSHALL"), spoils=True, after=1.0),
        ],
    ),
    (
        EXPIRING,
        [
            Case("a million TTLs renewed", _renew_expiry),
            Case("a million keys expire together", _expire_together, spoils=True, after=_BACKGROUND),
        ],
    ),
    (LONG_KEYS, [Case("KEYS, pattern of 260 bytes, 100,000 keys", _fixed("KEYS", "*a" * 130 + "b"))]),
    (SUBSCRIBER, [Case("PUBLISH with a pattern of 200 kB", _fixed("PUBLISH", "a" * 100, "message"))]),
    (
        HASH,
        [
            Case("HGETALL of a million", _fixed("HGETALL", "hash")),
            Case("HSCAN COUNT a million", _fixed("HSCAN", "hash", 0, "COUNT", MILLION)),
            Case("HSET of 100,000 fields", _new_fields),
            Case("DUMP of a hash", _fixed("DUMP", "hash")),
            Case("BGSAVE, a hash of a million", _fixed("BGSAVE"), after=_BACKGROUND),
            Case("DEL of a hash", _fixed("DEL", "hash"), spoils=True, after=1.0),
        ],
    ),
    (
        REPLICA,
        [
            Case(
                "it starts to follow a redis-server of two million",
                scenes.following_redis(2 * MILLION),
                spoils=True,
                after=3 * _BACKGROUND,
            ),
        ],
    ),
]
