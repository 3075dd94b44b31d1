"""One group: its measures, its consumers, and curves of the last hour."""

from __future__ import annotations

from typing import Any

from pystreams import measures
from pystreams.dashboard.api import shapes
from pystreams.dashboard.api.requests.parameters import Asked
from pystreams.streams import paged_calls
from pystreams.streams.groups import group_states as of_groups
from pystreams.streams.groups import seeks

_SORTS = {each.name: each for each in measures.CONSUMER}
_CURVES = tuple(each.name for each in measures.GROUP if each.has_history)


def group(asked: Asked) -> dict[str, Any]:
    """Return the measures of a group, a page of its consumers, and curves of lag, pending entries and delay."""
    stream, name = asked.key("stream"), asked.key("group")
    sort = asked.choice("sort", _SORTS, "pending")
    falling = asked.choice("order", ("rising", "falling"), "falling") == "falling"
    first, size = asked.page()
    with asked.access.lend() as connection:
        found = of_groups.need(connection, stream, name, paged_calls.now_ms(connection))
    consumers = sorted(found.consumers or (), key=lambda each: each.name)
    consumers.sort(key=_SORTS[sort].sorted_by, reverse=falling)
    owner = seeks.owner(found)
    return {
        **shapes.group(asked.snapshot.judged(found)),
        "read": found.read,
        "length": found.stream.length,
        "first": None if found.stream.first is None else str(found.stream.first),
        "now": found.at,
        "query": None if owner is None else {"prefix": owner[0], "consume": owner[1]},
        "consumer_rows": [shapes.consumer(each) for each in consumers[first : first + size]],
        "curves": {kind: shapes.curve(asked.sampler.curve(kind, stream, name)) for kind in _CURVES},
    }
