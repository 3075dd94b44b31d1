"""One group: its facts, its consumers, its last hour."""

from __future__ import annotations

from typing import Any

from pystreams.dashboard.api import shapes
from pystreams.dashboard.api.requests.asked import Asked
from pystreams.streams import asking
from pystreams.streams.groups import describing as of_groups
from pystreams.streams.groups import seeking
from pystreams.streams.groups.status import judge

_SORTS = {
    "name": lambda each: each.name,
    "pending": lambda each: (each.pending, each.name),
    "idle": lambda each: (each.idle_ms, each.name),
    "inactive": lambda each: (-1 if each.inactive_ms is None else each.inactive_ms, each.name),
}


def group(asked: Asked) -> dict[str, Any]:
    """Facts of a group, a page of its consumers, and its lag, pending entries and seconds behind over the last hour."""
    stream, name = asked.key("stream"), asked.key("group")
    sort = asked.choice("sort", _SORTS, "pending")
    falling = asked.choice("order", ("rising", "falling"), "falling") == "falling"
    first, size = asked.page()
    with asked.access.lend() as connection:
        found = of_groups.need(connection, stream, name, asking.now_ms(connection))
    sampled = asked.snapshot.groups.get((stream, name))
    consumers = sorted(found.consumers or (), key=_SORTS[sort], reverse=falling)
    owner = seeking.owner(found)
    return {
        **shapes.group_facts(found),
        "status": (judge([found.sample]) if sampled is None else sampled.status).value,
        "read": found.read,
        "length": found.stream.length,
        "first": None if found.stream.first is None else str(found.stream.first),
        "now": found.at,
        "query": None if owner is None else {"prefix": owner[0], "consume": owner[1]},
        "consumer_rows": [shapes.consumer(each) for each in consumers[first : first + size]],
        "curves": {
            kind: shapes.curve(asked.sampler.curve(kind, stream, name)) for kind in ("lag", "pending", "behind")
        },
    }
