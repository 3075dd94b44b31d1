"""Random commands on keys, strings and hashes give the same replies and keyspace events on a
core and on a redis-server.

Replies in random order are left out or compared without order.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import hiredis
import pytest

from engine.core.protocol.replies import BLOCKED
from engine.wire.encode import encoded
from tests import servers
from tests.harness.replay import new_core
from tests.servers.connection import Connection

#: Number of commands in each protocol.
COMMANDS = int(os.environ.get("FUZZ_COMMANDS", "4000"))

KEYS = [b"a", b"b", b"c", b"d"]
FIELDS = [b"f1", b"f2", b"f3"]
VALUES = [
    b"",
    b"0",
    b"1",
    b"-1",
    b"10",
    b"9999",
    b"10000",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"x",
    b"hello world",
    b"y" * 44,
    b"z" * 45,
    b"1.5",
    b"-3e2",
    b"0x1A",
    b"inf",
    b"nan",
    b" 1",
    b"01",
    b"+1",
    b"3.0e3",
    b"1e-10",
    b"-0",
    b".5",
    b"5.",
    b"1e4000",
]
NUMBERS = [
    b"0",
    b"1",
    b"-1",
    b"2",
    b"3",
    b"5",
    b"-5",
    b"10",
    b"100",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"x",
    b"",
    b"1.5",
    b"99999999999",
    b"-2",
]
OPTIONS = [
    b"NX",
    b"XX",
    b"GET",
    b"KEEPTTL",
    b"EX",
    b"PX",
    b"EXAT",
    b"PXAT",
    b"PERSIST",
    b"nx",
    b"COUNT",
    b"GT",
    b"REPLACE",
    b"DB",
    b"WITHVALUES",
    b"MATCH",
    b"TYPE",
    b"ASYNC",
]
SECONDS = [
    b"100000",
    b"200000",
    b"300000",
    b"0",
    b"-1",
    b"9223372036854775",
    b"9223372036854776",
    b"-9223372036854776",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"x",
]
#: Replacements for words in FORMS. A star repeats a word up to three times, or leaves it out.
KINDS = {
    "key": KEYS,
    "field": FIELDS,
    "value": VALUES,
    "number": NUMBERS,
    "option": OPTIONS,
    "seconds": SECONDS,
    "any": [*VALUES, *NUMBERS, *OPTIONS, *FIELDS],
    "db": [b"0", b"1", b"1", b"16", b"x"],
    "when": [b"4000000000", b"5000000000", b"1"],
    "condition": [b"NX", b"XX", b"GT", b"lt", b"FOO"],
    "unit": [b"EX", b"px", b"EXAT", b"PXAT"],
    "float": [b"0.1", b"1e300", b"-7.25"],
    "glob": [b"*", b"[^a]", b"?"],
    "test": [b"IFEQ", b"IFNE", b"IFDEQ", b"ifdne"],
}
FORMS = """
DEL key* | UNLINK key | EXISTS key key* | TYPE key | TOUCH key* | RENAME key key | RENAMENX key key | COPY key key
COPY key key DB db | COPY key key REPLACE | COPY key key option* | MOVE key db | SWAPDB db db | EXPIRE key seconds
EXPIRE key seconds condition condition | PEXPIRE key seconds condition | EXPIREAT key when condition
PEXPIREAT key when
TTL key | PTTL key | EXPIRETIME key | PEXPIRETIME key | PERSIST key | DBSIZE | KEYS glob
SET key value | SET key value | SET key value any* | SET key value unit seconds option* | SET key value option option
GET key | GETSET key value | GETDEL key | GETEX key any* | GETEX key unit seconds | SETNX key value | STRLEN key
MGET key key* | MSET key value key value
MSET key* | INCR key | DECR key | INCRBY key number | DECRBY key number
APPEND key value
HSET key field value | HSET key field value field value | HSET key any* | HMSET key field value | HGET key field
HMGET key field field | HDEL key field field* | HLEN key | HINCRBY key field number | HINCRBYFLOAT key field value
HINCRBYFLOAT key field float | HEXISTS key field | HSETNX key field value | HSTRLEN key field | HSCAN key 0 any*
SPUBLISH nobody value | PUBSUB SHARDCHANNELS | PUBSUB SHARDNUMSUB key
SCAN 0 COUNT 100 | SCAN value any* | WATCH key* | UNWATCH
MULTI | EXEC | EXEC | DISCARD | PUBSUB option | PUBLISH nobody value
"""
#: Commands and options newer than 7.0, with their release.
NEWER_FORMS = {
    "8.4": """
SET key value test value option* | SET key value test value test value | SET key value option test value
SET key value test value unit seconds
""",
}
ORDERED_BY_CHANCE = {b"KEYS", b"SCAN", b"HSCAN", b"HMGET", b"HGETALL"}


class Ours:
    """A core with the clock of this machine, which redis-server uses as well."""

    def __init__(self, proto: int) -> None:
        self.core = new_core(notify_keyspace_events="EKAnm")
        self.proto = proto
        self.session = self.core.open_session(0)
        self.session.proto = proto
        self.listener = self.core.open_session(0)
        self.core.pubsub.subscribe_pattern(self.listener, b"__key*")
        self.reader = hiredis.Reader()
        self.events: list[Any] = []

    def run(self, *words: bytes) -> Any:
        reply = self.core.execute(self.session, list(words), time.time_ns() // 1000)
        if reply is BLOCKED:
            self.core.sessions.time_out(self.session)
            reply = next(answer for session, answer in self.core.outbox if session is self.session)
        self.events += [message[2:] for session, message in self.core.outbox if session is self.listener]
        self.core.outbox.clear()
        self.core.changes.effects.clear()
        self.reader.feed(encoded(reply, self.proto))
        return self.reader.gets()


def commands(draw: random.Random) -> Iterator[list[bytes]]:
    newer = [text for version, text in NEWER_FORMS.items() if servers.redis_release().since(version)]
    forms = [form.split() for text in (FORMS, *newer) for line in text.strip().splitlines() for form in line.split("|")]
    while True:
        form = draw.choice(forms)
        if form == ["MULTI"] and draw.random() < 0.5:
            continue
        words = []
        for word in form:
            kind = KINDS.get(word.rstrip("*"))
            count = draw.randint(0, 3) if word.endswith("*") else 1
            words += [word.encode()] if kind is None else [draw.choice(kind) for _ in range(count)]
        # Redis 8.6 replies twice to GET with an invalid digest.
        if not (words[0] == b"SET" and b"GET" in words and {b"IFDEQ", b"ifdne"} & set(words)):
            yield words


#: Error texts of the engine, each with the text of servers before 7.2.
_REPLIES_BEFORE_7_2 = (
    {} if servers.redis_release().since("7.2") else {"ERR timeout is out of range": "ERR timeout is negative"}
)


def same(words: list[bytes], expected: Any, reply: Any) -> bool:
    """Whether two replies agree; times may differ by three seconds."""
    if _REPLIES_BEFORE_7_2 and words[0] == b"SCAN" and not words[1].isdigit():
        return True  # The elements have changed, and with them the valid cursors.
    if words[0] in ORDERED_BY_CHANCE and isinstance(expected, list) and isinstance(reply, list):
        if words[0] == b"SCAN" and b"100" not in words:
            return True
        return sorted(map(repr, expected)) == sorted(map(repr, reply)) or _flat(expected) == _flat(reply)
    if isinstance(expected, hiredis.ReplyError):
        return isinstance(reply, hiredis.ReplyError) and str(expected) in (
            str(reply),
            _REPLIES_BEFORE_7_2.get(str(reply)),
        )
    if isinstance(expected, int) and isinstance(reply, int) and expected > 50:
        return abs(expected - reply) <= 3000
    return type(expected) is type(reply) and bool(expected == reply)


def _comparable(words: list[bytes], events: list[Any]) -> list[Any]:
    """Return the keyspace events without their random parts."""
    # Expired keys are reported in the order of a table for SCAN.
    return sorted(events) if words[0] in (b"SCAN", b"EXEC") else events


def _flat(value: Any) -> list[str]:
    return sorted(part for item in value for part in _flat(item)) if isinstance(value, list) else [repr(value)]


def same_in_order(queued: list[list[bytes]], expected: Any, reply: Any, compare: Callable[..., bool] = same) -> bool:
    """Whether the replies of two EXEC agree, compared as by ``same`` in order."""
    if isinstance(expected, list) and isinstance(reply, list) and len(expected) == len(reply) == len(queued):
        return all(map(compare, queued, expected, reply))
    return same([b"EXEC"], expected, reply)


@pytest.mark.redis
@pytest.mark.parametrize("proto", [2, 3])
def test_random_commands_agree_with_redis(proto: int) -> None:
    """The engine gives the same replies, including error texts, and the same keyspace events as redis-server."""
    seed = os.environ.get("FUZZ_SEED", "1")
    draw = random.Random(f"{seed}/{proto}")
    with servers.redis() as running, Connection(running, proto) as real, Connection(running, 3) as listener:
        ours = Ours(proto)
        real.run(b"CONFIG", b"SET", b"notify-keyspace-events", b"EKAnm")
        # Both servers drop expired keys only on access, so both publish this event at the same moment.
        real.run(b"DEBUG", b"SET-ACTIVE-EXPIRE", b"0")
        listener.run(b"PSUBSCRIBE", b"__key*")
        queued: list[list[bytes]] = []
        for number, words in zip(range(COMMANDS), commands(draw), strict=False):
            expected, reply = real.run(*words), ours.run(*words)
            where = f"seed {seed}, command {number}, {words}"
            if words[0] == b"EXEC":
                assert same_in_order(queued, expected, reply), f"{where}: {expected!r}, ours {reply!r}, {queued}"
            else:
                assert same(words, expected, reply), f"{where}: {expected!r}, ours {reply!r}"
            queued = [*queued, words] if reply == b"QUEUED" else queued if ours.session.multi is not None else []
            if ours.session.multi is None:
                real.run(b"PUBLISH", b"__key", b"")
                events = []
                while (message := listener.receive())[2] != b"__key":
                    events.append(list(message[2:]))
                assert _comparable(words, events) == _comparable(words, ours.events), where
                ours.events.clear()
