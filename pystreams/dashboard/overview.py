"""Overview: pages of all streams and groups, totals, groups that need attention, and the status of the server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from pystreams import measures
from pystreams.dashboard import shapes
from pystreams.dashboard.history import Curve
from pystreams.dashboard.requests import Asked, visible_page
from pystreams.dashboard.sampler import ATTENTION, SORTS, Snapshot, State
from pystreams.measures import GroupRow
from pystreams.streams import paged_calls, servers
from pystreams.streams.group_states import Status
from streamclient.config.address import Endpoint
from streamclient.reply_maps import line_fields, pairs

_ATTENTION = 6  # maximum number of groups that need attention in the overview
#: Names of the curves of totals over all streams.
_SUMS = ("rate", "lag", "pending", "entries")
_CURVES = (*_SUMS, "memory", "commands", "clients")
_FACTS = {
    "release": ("engine_release", "valkey_version", "redis_version"),
    "role": ("role",),
    "replicas": ("connected_slaves",),
    "mode": ("redis_mode",),
    "uptime_seconds": ("uptime_in_seconds",),
    "memory": ("used_memory",),
    "maxmemory": ("maxmemory",),
    "clients": ("connected_clients",),
}


def news(state: State, *, whole: bool) -> dict[str, Any]:
    """Return the document that browsers get after each sample. It contains no name of a stream or group.

    `whole`: whether the session may see every stream. Otherwise, and before the first sample, the totals are None.
    """
    snapshot = state.snapshot
    return {
        "number": state.number,
        "at": snapshot.at,
        "problem": state.problem,
        "age_ms": state.age_ms,
        "totals": asdict(snapshot.totals) if whole and snapshot.at else None,
        "server": server_facts(snapshot),
    }


def server_facts(snapshot: Snapshot) -> dict[str, Any]:
    """Return the data of the server that every page shows."""
    facts: dict[str, Any] = {
        "product": servers.product(snapshot.facts),
        "commands_per_second": snapshot.commands,
    }
    for name, lines in _FACTS.items():
        value = next((snapshot.facts[line] for line in lines if line in snapshot.facts), None)
        facts[name] = int(value) if value is not None and value.isdigit() else value
    return facts


def overview(asked: Asked) -> dict[str, Any]:
    """Return the current totals and their curves, the group furthest behind, and groups that need attention."""
    every, _ = _groups(asked, "behind")
    furthest = next((row for row in every if row.group.behind_ms), None)
    attention, number = _groups(asked, "status", ATTENTION)
    return {
        **news(asked.sampler.state, whole=asked.access.session.whole),
        "curves": {name: shapes.curve(_curve(asked, name)) for name in _CURVES},
        "furthest": None if furthest is None else shapes.group(furthest),
        "attention": [shapes.group(row) for row in attention[:_ATTENTION]],
        "attention_total": number,
    }


def _groups(asked: Asked, sort: str, status: str = "") -> tuple[list[GroupRow], int | None]:
    """Return the requested page of groups in falling order of a measure, and the total number of groups.

    `status`: a status, or `ATTENTION`; empty for all. Only groups that the session may see are included.
    """
    rows = asked.snapshot.ordered("groups", sort, falling=True, status=status)
    return visible_page(asked, rows, lambda row: row.names[0])


def _curve(asked: Asked, name: str) -> Curve:
    """Return the curve `name`. It is empty if the session's user may not see the totals over all streams."""
    hidden = name in _SUMS and not asked.access.session.whole
    return Curve([], []) if hidden else asked.sampler.curve(name)


def streams(asked: Asked) -> dict[str, Any]:
    """Return a page of the streams, sorted and searched."""
    return _listed(asked, "streams", "name", "rising", shapes.stream)


def groups(asked: Asked) -> dict[str, Any]:
    """Return a page of the groups of all streams, sorted and searched, optionally only groups with one status."""
    return _listed(asked, "groups", "lag", "falling", shapes.group)


def _listed(asked: Asked, kind: str, sort: str, order: str, shape: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    sort = asked.choice("sort", SORTS[kind], sort)
    falling = asked.choice("order", ("rising", "falling"), order) == "falling"
    status = asked.choice("status", ("any", ATTENTION, *Status), "any")
    search = asked.text("search")[:200]
    rows = asked.snapshot.ordered(kind, sort, falling=falling, search=search, status="" if status == "any" else status)
    page, total = visible_page(asked, rows, lambda row: row.names[0])
    drawn = [each.name for each in measures.IN_BROWSER[kind] if each.trend]
    return {
        "at": asked.snapshot.at,
        "total": total,
        "rows": [
            {**shape(row), "trends": {name: shapes.trend(asked.sampler.curve(name, *row.names)) for name in drawn}}
            for row in page
        ],
    }


_REFUSALS = 50  # maximum number of refusals of each master


def server(asked: Asked) -> dict[str, Any]:
    """Return the facts of the last sample, and what the ACL of each master has refused, the last one first.

    `refusals` is None if the user may not read them.
    """
    command = ("ACL", "LOG", _REFUSALS)
    with asked.access.lend() as connection:
        masters = connection.topology.masters()
        replies = {node: paged_calls.ask_server(connection, node, [command])[0] for node in masters}
    found = [_refusal(node, each) for node, reply in replies.items() if isinstance(reply, list) for each in reply]
    permitted = all(isinstance(reply, list) for reply in replies.values())
    return {
        "facts": server_facts(asked.snapshot) | {"address": asked.access.session.address.shown},
        "refusals": sorted(found, key=lambda each: each["ago_ms"]) if permitted else None,
    }


def _refusal(node: Endpoint, reply: Any) -> dict[str, Any]:
    """Return an entry of ACL LOG: the user, the refused object, the number of refusals, and the time of the last
    one.
    """
    entry: dict[bytes, Any] = pairs(reply)
    texts = {name: shapes.cut(entry.get(name.encode(), b""), 200) for name in ("username", "reason", "object")}
    client = entry.get(b"client-info", b"").decode("utf-8", "replace")
    address = line_fields(client, " ").get("addr", "")
    return {
        "id": f"{node} {int(entry.get(b'entry-id', 0))}",
        "user": texts["username"],
        "reason": texts["reason"],
        "object": texts["object"],
        "count": int(entry.get(b"count", 1)),
        "ago_ms": round(float(entry.get(b"age-seconds", 0)) * 1000),
        "client": shapes.cut(address.encode(), 100),
    }
