"""Status of the server: memory, persistence, replication, traffic, and refusals of its ACL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pystreams.dashboard.api import shapes
from pystreams.dashboard.api.overview import server_facts
from pystreams.dashboard.api.requests import Asked
from pystreams.streams import paged_calls
from streamclient.connection import Command
from streamclient.reply_maps import info_lines, line_fields, pairs

_REFUSALS = 50  # maximum number of refusals
_QUESTIONS: tuple[Command, ...] = (("INFO",), ("ACL", "LOG", _REFUSALS))

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
    """Return the server's status. `refusals` is None if the user may not read them.

    In a cluster, the parameter `node` of the request names the node.
    """
    with asked.access.lend() as connection:
        nodes = connection.topology.masters() if connection.topology.is_cluster else []
        node = asked.choice("node", [str(each) for each in nodes], str(nodes[0])) if nodes else ""
        if nodes:
            endpoint = next(each for each in nodes if str(each) == node)
            info, refusals = paged_calls.ask_server(connection, endpoint, _QUESTIONS)
        else:
            info, refusals = connection.pipeline(_QUESTIONS)
    facts = info_lines(info)
    return {
        "nodes": [str(each) for each in nodes],
        "node": node,
        "facts": server_facts(asked.snapshot) | {"address": asked.access.session.address.shown},
        "sections": {title: {line: facts.get(line) for line in lines} for title, lines in _SECTIONS.items()},
        "replicas": [facts[f"slave{at}"] for at in range(20) if f"slave{at}" in facts],
        "refusals": [_refusal(pairs(each)) for each in refusals] if isinstance(refusals, list) else None,
    }


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
