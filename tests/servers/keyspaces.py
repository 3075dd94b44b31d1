"""All keys of a server as clients see them, as plain data for a comparison with another server's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.differential.exclusions import NEW

#: Runs a command: takes its words and returns the reply as hiredis parses it.
Ask = Callable[..., Any]

#: Fields of XINFO STREAM that may differ between two servers with the same data.
_OF_THE_SERVER = {b"radix-tree-keys", b"radix-tree-nodes", b"entries"}
#: Fields since 8.6, and counters that replicas do not receive.
_NEWER = {
    b"idmp-duration",
    b"idmp-maxsize",
    b"pids-tracked",
    b"iids-tracked",
    b"iids-added",
    b"iids-duplicates",
    b"nacked-count",
}
#: Number of databases that are compared.
DATABASES = 4


def everything(ask: Ask) -> dict[tuple[int, bytes], Any]:
    """Return all keys of the first databases with their types, values and deadlines.

    Streams have their groups and pending entries, with times and counts of deliveries. The lag is left out: older
    servers get it wrong, and it follows from the other values.
    """
    found = {}
    for index in range(DATABASES):
        ask("SELECT", index)
        for key in sorted(ask("KEYS", "*")):
            found[index, key] = ask("PEXPIRETIME", key), value(ask, key)
    ask("SELECT", 0)
    return found


def value(ask: Ask, key: bytes) -> Any:
    """Return a key's value."""
    kind = ask("TYPE", key)
    if kind == b"string":
        return ask("GET", key)
    if kind == b"hash":
        return sorted(zip(*[iter(ask("HGETALL", key))] * 2, strict=True))
    return _stream(ask, key)


def flat(reply: list[Any]) -> dict[bytes, Any]:
    """Return a map of RESP2 as a dict."""
    return dict(zip(reply[::2], reply[1::2], strict=True))


def _stream(ask: Ask, key: bytes) -> dict[Any, Any]:
    about = flat(ask("XINFO", "STREAM", key, "FULL", "COUNT", 0))
    groups = {}
    for group in map(flat, about.pop(b"groups")):
        consumers = {consumer[b"name"]: consumer[b"pel-count"] for consumer in map(flat, group.pop(b"consumers"))}
        if not NEW:
            del group[b"lag"]
        groups[group[b"name"]] = {**{k: v for k, v in group.items() if k not in _NEWER}, "consumers": consumers}
    facts = {name: value for name, value in about.items() if name not in _OF_THE_SERVER | _NEWER}
    return {**facts, "entries": ask("XRANGE", key, "-", "+"), "groups": groups}
