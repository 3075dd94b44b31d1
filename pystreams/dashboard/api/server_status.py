"""Status of the server: clients, slow commands, latency, refusals, persistence, replication; cached for two seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pystreams.dashboard.api import shapes
from pystreams.dashboard.api.overview import server_facts
from pystreams.dashboard.api.requests import Asked
from pystreams.dashboard.security.masks import Masks
from pystreams.streams import paged_calls
from streamclient.connection import Command
from streamclient.reply_maps import info_lines, line_fields, pairs

# Maximum number of rows of each table, of arguments of a slow command, and of bytes of such an argument.
_MOST_CLIENTS = 100
_SLOW = 50
_COMMANDS = 25
_REFUSALS = 50
_WORDS, _WORD_BYTES = 12, 120

_SECTIONS = {
    "memory": ("used_memory", "used_memory_peak", "used_memory_rss", "maxmemory", "maxmemory_policy"),
    "persistence": (
        "loading",
        "aof_enabled",
        "aof_last_write_status",
        "aof_last_bgrewrite_status",
        "aof_rewrite_in_progress",
        "aof_current_size",
        "rdb_last_save_time",
        "rdb_changes_since_last_save",
        "rdb_bgsave_in_progress",
        "rdb_last_bgsave_status",
    ),
    "replication": (
        "role",
        "connected_slaves",
        "master_host",
        "master_port",
        "master_link_status",
        "master_last_io_seconds_ago",
        "master_repl_offset",
        "slave_repl_offset",
        "repl_backlog_size",
    ),
    "traffic": (
        "total_connections_received",
        "rejected_connections",
        "total_commands_processed",
        "instantaneous_ops_per_sec",
        "total_net_input_bytes",
        "total_net_output_bytes",
        "total_error_replies",
        "evicted_keys",
        "expired_keys",
    ),
}


def server(asked: Asked) -> dict[str, Any]:
    """Return the server's status. A part that the user may not read is None.

    In a cluster, the parameter `node` of the request names the node.
    """
    with asked.access.lend() as connection:
        nodes = connection.topology.masters() if connection.topology.is_cluster else []
        node = asked.choice("node", [str(each) for each in nodes], str(nodes[0])) if nodes else ""
        if nodes:
            endpoint = next(each for each in nodes if str(each) == node)
            replies = paged_calls.ask_server(connection, endpoint, _questions())
        else:
            replies = connection.pipeline(_questions())
    clients, slow, latest, statistics, refusals = replies[1:]
    facts = info_lines(replies[0])
    seen = slow if isinstance(slow, list) else None
    return {
        "nodes": [str(each) for each in nodes],
        "node": node,
        "facts": server_facts(asked.snapshot) | {"address": asked.access.session.address.shown},
        "sections": {title: {line: facts.get(line) for line in lines} for title, lines in _SECTIONS.items()},
        "replicas": [facts[f"slave{at}"] for at in range(20) if f"slave{at}" in facts],
        "clients": _clients(clients) if isinstance(clients, bytes) else None,
        "slow": None if seen is None else [_slow(each, asked.masks) for each in seen],
        "latency": [_event(each) for each in latest] if isinstance(latest, list) else None,
        "commands": _commands(statistics) if isinstance(statistics, bytes) else None,
        "refusals": [_refusal(pairs(each)) for each in refusals] if isinstance(refusals, list) else None,
    }


def _questions() -> list[Command]:
    return [
        ("INFO",),
        ("CLIENT", "LIST"),
        ("SLOWLOG", "GET", _SLOW),
        ("LATENCY", "LATEST"),
        ("INFO", "commandstats"),
        ("ACL", "LOG", _REFUSALS),
    ]


def _clients(reply: bytes) -> dict[str, Any]:
    """Return the clients, largest memory use first."""
    rows = [line_fields(line, " ") for line in reply.decode("utf-8", "replace").splitlines()]
    rows.sort(key=lambda row: (-_number(row.get("tot-mem") or row.get("omem")), _number(row.get("id"))))
    columns = ("id", "addr", "name", "user", "age", "idle", "cmd", "tot-mem", "omem", "flags", "lib-name")
    return {
        "total": len(rows),
        "rows": [
            {name: shapes.cut(row.get(name, "").encode(), 100) for name in columns} for row in rows[:_MOST_CLIENTS]
        ],
    }


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _slow(entry: Sequence[Any], masks: Masks) -> dict[str, Any]:
    """Return the JSON form of an entry of the slow log.

    If there are masking rules, the command's arguments are omitted, since they may contain masked values.
    """
    limit = 1 if masks else _WORDS
    words = [shapes.cut(word, _WORD_BYTES) for word in entry[3][:limit] if isinstance(word, bytes)]
    more = len(entry[3]) - len(words)
    return {
        "at": int(entry[1]) * 1000,
        "microseconds": int(entry[2]),
        "command": " ".join(words) + (f" … ({more} more)" if more > 0 else ""),
        "client": shapes.cut(entry[4], 100) if len(entry) > 4 else "",
    }


def _event(entry: Sequence[Any]) -> dict[str, Any]:
    return {"event": shapes.cut(entry[0], 100), "at": int(entry[1]) * 1000, "last": int(entry[2]), "max": int(entry[3])}


def _refusal(entry: Mapping[bytes, Any]) -> dict[str, Any]:
    """Return an entry of ACL LOG: the user, the refused object, the number of refusals, and the time of the last
    one.
    """
    texts = {name: shapes.cut(entry.get(name.encode(), b""), 200) for name in ("username", "reason", "object")}
    client = entry.get(b"client-info", b"").decode("utf-8", "replace")
    address = line_fields(client, " ").get("addr", "")
    return {
        "id": int(entry.get(b"entry-id", 0)),
        "user": texts["username"],
        "reason": texts["reason"],
        "object": texts["object"],
        "count": int(entry.get(b"count", 1)),
        "ago_ms": round(float(entry.get(b"age-seconds", 0)) * 1000),
        "client": shapes.cut(address.encode(), 100),
    }


def _commands(reply: bytes) -> list[dict[str, Any]]:
    """Return the commands with the largest total time."""
    found: list[dict[str, Any]] = []
    for name, text in info_lines(reply).items():
        if name.startswith("cmdstat_"):
            facts = line_fields(text, ",")
            found.append(
                {
                    "command": name.removeprefix("cmdstat_").upper().replace("|", " "),
                    "calls": int(facts.get("calls", 0)),
                    "microseconds": int(facts.get("usec", 0)),
                    "per_call": float(facts.get("usec_per_call", 0)),
                    "failed": int(facts.get("failed_calls", 0)) + int(facts.get("rejected_calls", 0)),
                }
            )
    return sorted(found, key=lambda each: -each["microseconds"])[:_COMMANDS]


class Cached:
    """Cache of `server` per user and node, for two seconds, since lists of clients may be long."""

    _SECONDS = 2.0
    _MOST = 50

    def __init__(self) -> None:
        self._cache: dict[tuple[str, bool, str], tuple[float, dict[str, Any]]] = {}

    def __call__(self, asked: Asked) -> dict[str, Any]:
        session = asked.access.session
        # An ACL user may have the name of sessions by token. `whole` tells the two apart if their rights differ.
        user = (session.user, session.whole, asked.text("node"))
        at, found = self._cache.get(user, (-1e9, {}))
        if time.monotonic() - at > self._SECONDS:
            found = server(asked)
            if len(self._cache) >= self._MOST:
                self._cache.clear()
            self._cache[user] = (time.monotonic(), found)
        return found
