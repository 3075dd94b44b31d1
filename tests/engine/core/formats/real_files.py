"""Small keyspaces with every type that the engine stores, and the RDB files that real servers write for them.

A server rejects the commands that it does not support, so its keyspace lacks their keys. The sizes make each encoding
of a type occur at least once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import hiredis

from scripts.peers import PEERS_DIR, Peers
from tests import servers
from tests.servers.connection import Connection
from tests.servers.keyspaces import flat, value
from tests.suite import tools

#: Deadlines of keys, in milliseconds since the epoch: later than the clock of every test.
LATER = 4_000_000_000_000
_LIBRARY = "#!lua name=%s\nredis.register_function('%s', function(keys, args) return args[1] end)"
#: Low limits of small encodings, so that small values get the large encodings too.
_LIMITS = {
    "hash-max-listpack-entries": 8,
    "stream-node-max-entries": 10,
}


Command = tuple[Any, ...]


def settings() -> Iterator[Command]:
    """Yield the commands that set the limits; a server that lacks a limit rejects its command."""
    yield from (("CONFIG", "SET", name, value) for name, value in _LIMITS.items())


def texts() -> Iterator[Command]:
    """Yield commands that create strings."""
    yield "SET", "text", "hello"
    yield "SET", "number", "-12345"
    yield "SET", "repeats", "abcabc" * 40
    yield "SET", b"\0\r\nbinary", bytes(range(256)), "PXAT", LATER
    yield "APPEND", "raw", "text"


def hashes() -> Iterator[Command]:
    """Yield commands that create hashes."""
    yield "HSET", "hash", "a", 1, "b", "x" * 50, "c", -70_000
    yield "HSET", "big hash", *[word for number in range(12) for word in (f"f{number}", f"v{number}")]


def unsupported() -> Iterator[Command]:
    """Yield commands that create values of each type and encoding that the engine does not store."""
    yield "CONFIG", "SET", "set-max-intset-entries", 8
    yield "CONFIG", "SET", "set-max-listpack-entries", 4
    yield "CONFIG", "SET", "zset-max-listpack-entries", 6
    yield "CONFIG", "SET", "list-max-listpack-size", 6
    for name in ("one", "other"):
        yield "FUNCTION", "LOAD", "REPLACE", _LIBRARY % (name, name)
    yield "RPUSH", "list", "a", -5, 1 << 40, "b" * 60
    yield "RPUSH", "long list", *[f"item{number}" for number in range(20)], "large" * 30
    yield "SADD", "numbers", 1, -2, 70_000
    yield "SADD", "wide numbers", 1 << 40, -(1 << 62), 5
    yield "SADD", "small set", "a", "17", "b" * 60
    yield "SADD", "big set", *[f"member-{number}" for number in range(12)], 7
    for name, fields in (("small expiring", 4), ("big expiring", 12)):
        yield "HSET", name, *[word for number in range(fields) for word in (f"f{number}", number)]
        yield "HPEXPIREAT", name, LATER, "FIELDS", 2, "f1", "f2"
        yield "HPEXPIREAT", name, LATER + 7, "FIELDS", 1, "f3"
    yield "ZADD", "scores", 1, "a", 2.5, "b" * 60, "-inf", "17", -7, "d", 1 << 40, "e"
    yield "ZADD", "big scores", *[word for number in range(12) for word in (number / 8 - 1, f"member-{number}")]
    yield "ZADD", "big scores", "inf", "last", "-0", "zero", "1e300", "huge"


def streams() -> Iterator[Command]:
    """Yield commands that create streams, groups and producers."""
    for number in range(1, 30):
        yield "XADD", "s", f"{number // 3}-{number}", "f", number, "g", "x" * (number % 7)
    yield "XADD", "s", "5000-0", "other", "fields", "than", "before", "n", "17"
    yield "XDEL", "s", "1-4", "2-7"
    yield "XGROUP", "CREATE", "s", "g", "0"
    yield "XGROUP", "CREATE", "s", "empty", "$"
    yield "XGROUP", "CREATE", "s", "ahead", "3-9", "ENTRIESREAD", 4
    for consumer, count in (("alice", 9), ("bob", 2), ("alice", 5)):
        yield "XREADGROUP", "GROUP", "g", consumer, "COUNT", count, "STREAMS", "s", ">"
    yield "XREADGROUP", "GROUP", "ahead", "carol", "STREAMS", "s", ">"
    yield "XGROUP", "CREATECONSUMER", "s", "g", "idle"
    yield "XCLAIM", "s", "g", "bob", 0, "0-1", "TIME", 1_600_000_000_000, "RETRYCOUNT", 7
    yield "XACK", "s", "g", "1-5", "2-8"
    yield "XDEL", "s", "0-2"
    yield "XGROUP", "CREATE", "nothing", "g", "$", "MKSTREAM"
    yield "XADD", "deleted", "7-7", "f", "v"
    yield "XDEL", "deleted", "7-7"
    for number in range(5):
        yield "XADD", "sent", "IDMP", f"producer-{number % 2}", f"id-{number}", "*", "f", "v"
    yield "XADD", "sent", "IDMPAUTO", "producer-2", "*", "f", "v"
    yield "XGROUP", "CREATE", "returned", "g", "0", "MKSTREAM"
    yield "XADD", "returned", "1-1", "f", "v"
    yield "XADD", "returned", "1-2", "f", "v"
    yield "XREADGROUP", "GROUP", "g", "c", "STREAMS", "returned", ">"
    yield "XNACK", "returned", "g", "FAIL", "IDS", 1, "1-1"


#: Fields of XINFO STREAM about producers, in Redis 8.6 and later.
_PRODUCERS = (b"pids-tracked", b"iids-tracked", b"idmp-duration", b"idmp-maxsize")

PARTS: dict[str, Callable[[], Iterator[Command]]] = {"texts": texts, "hashes": hashes, "streams": streams}


def fill(ask: Callable[..., Any], without: Sequence[Command] = ()) -> list[Command]:
    """Create the keys of all parts without the left-out commands; return the commands that the server rejected."""
    every = [settings(), *(part() for part in PARTS.values())]
    known = [words for part in every for words in part if words not in without]
    return [words for words in known if isinstance(ask(*words), hiredis.ReplyError)]


def view(ask: Any) -> dict[bytes, Any]:
    """Return everything that clients can see of all keys."""
    found = {}
    for key in sorted(ask("KEYS", "*")):
        kind = ask("TYPE", key)
        more: Any = None
        if kind == b"stream":
            about = flat(ask("XINFO", "STREAM", key))
            more = [about[field] for field in _PRODUCERS] if about.get(b"pids-tracked") else None
        found[key] = kind, ask("PEXPIRETIME", key), value(ask, key), more
    return found


def programs() -> dict[str, str]:
    """Return the names and paths of the redis-server on PATH and of the servers that scripts/peers has unpacked."""
    installed = tools.path_of("redis-server")
    peers = Peers(PEERS_DIR)
    found = {} if installed is None else {"redis-server": installed}
    return found | {name: str(peers.server(name)) for name in sorted(peers.here())}


@contextmanager
def server(program: str, *flags: str) -> Iterator[Connection]:
    """Start a server of this program and yield a client of it."""
    with (
        mock.patch.dict(os.environ, {"REDIS_SERVER": program}),
        servers.redis(*flags) as running,
        Connection(running) as client,
    ):
        yield client


def files() -> dict[str, bytes]:
    """Return two RDB files of each server for each part: compressed, and uncompressed with idle times."""
    found = {}
    for name, program in programs().items():
        for way, flags in {"": (), ", idle": ("--maxmemory-policy", "allkeys-lru", "--rdbcompression", "no")}.items():
            with server(program, *flags) as client:
                path = Path(client.run("CONFIG", "GET", "dir")[1].decode()) / "dump.rdb"
                for part, commands in (*PARTS.items(), ("unsupported types", unsupported)):
                    client.run("FLUSHALL")
                    for words in (*settings(), *commands()):
                        client.run(*words)
                    assert client.run("SAVE") == b"OK"
                    found[f"{part} of {name}{way}"] = path.read_bytes()
    return found
