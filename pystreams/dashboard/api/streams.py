"""One stream: facts, groups, entries in pages, and what its fields hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pystreams import measures
from pystreams.dashboard.api import shapes
from pystreams.dashboard.api.requests.parameters import Asked
from pystreams.dashboard.api.statistics import statistics
from pystreams.errors import fail
from pystreams.measures import GroupRow, StreamRow
from pystreams.streams import entries, inventory, paged_calls
from pystreams.streams.groups import states as of_groups
from pystreams.streams.groups.status import judge
from pystreams.values import fields, names, positions, times
from pystreams.values.conditions import Condition, parse
from pystreams.values.fields import Entry
from streamclient.connection import Connection
from streamwire.stream_id import LAST, ZERO, StreamId

_MEASURES = tuple(each for each in measures.STREAM if each.name not in ("lag", "behind", "pending", "status"))
_CURVES = tuple(each.name for each in measures.STREAM if each.kept)
_MOST_GROUPS = 200
_SCANNED = 5_000  # entries that one request looks through for those that a condition holds for
_SAMPLE = 1_000
_CONDITION = 1_000
_ENTRY_BYTES = 1 << 20  # of the values of one entry that are sent whole
_LEAST_BYTES = 2_000  # of a value, after those


def stream(asked: Asked) -> dict[str, Any]:
    """Facts of a stream, its groups with their status, and its last hour."""
    name = asked.key("stream")
    with asked.access.lend() as connection:
        now = paged_calls.now_ms(connection)
        found = inventory.need(connection, name)
        groups = list(of_groups.groups_of(connection, [found], now, details=False))
        shown = of_groups.detailed(connection, sorted(groups, key=lambda each: -(each.lag or 0))[:_MOST_GROUPS])
    sampled = asked.snapshot.groups
    rows = [
        GroupRow(each, sampled[name, each.name].status if (name, each.name) in sampled else judge([each.sample]))
        for each in shown
    ]
    row = asked.snapshot.streams.get(name)
    rate = None if row is None else row.stream.rate
    return {
        **shapes.stream(StreamRow(replace(found, rate=rate), now), _MEASURES),
        "now": now,
        "group_rows": [shapes.group(each) for each in sorted(rows, key=lambda each: each.group.name)],
        "curves": {kind: shapes.curve(asked.sampler.curve(kind, name)) for kind in _CURVES},
        "dead_letters": name in asked.snapshot.letters,
    }


def condition(text: str) -> Condition | None:
    """The condition that a text says; None for an empty one."""
    if len(text) > _CONDITION:
        fail("INVALID_VALUE", name="where", value="...", expected=f"it may have {_CONDITION} characters")
    return parse(text) if text.strip() else None


def browse(asked: Asked) -> dict[str, Any]:
    """A page of entries: from a position on (`order=rising`), or from it back. `next` is where the next page begins."""
    name = asked.key("stream")
    order = asked.choice("order", ("rising", "falling"), "falling")
    size = asked.number("size", 50, 1, 200)
    holds = condition(asked.text("where"))
    at = asked.text("at").strip()
    with asked.access.lend() as connection:
        if order == "rising":
            start = _first(connection, name, at) if at else ZERO
            found, scanned, following = _forward(connection, name, start, size, holds)
        else:
            start = _first(connection, name, at) if at else LAST
            found, scanned, following = _back(connection, name, start, size, holds)
    return {
        "rows": [shapes.entry(each) for each in found],
        "scanned": scanned,
        "next": None if following is None else str(following),
    }


def _first(connection: Connection, name: bytes, text: str) -> StreamId:
    """The ID that a position means: an ID, a time, a duration ago, start or end."""
    position = positions.parse(text, "at")
    if position.kind == "end":
        return LAST
    if position.kind == "id" and position.id is not None:
        return position.id
    after = entries.after_of(connection, inventory.need(connection, name), position, paged_calls.now_ms(connection))
    return after.next()


Found = tuple[list[Entry], int, StreamId | None]


def _forward(connection: Connection, name: bytes, start: StreamId, size: int, holds: Condition | None) -> Found:
    found: list[Entry] = []
    scanned = 0
    most = size if holds is None else _SCANNED
    last: StreamId | None = None
    for page in entries.pages(connection, name, start.before() if start > ZERO else ZERO, LAST, most=most):
        for each in page:
            scanned += 1
            last = StreamId.parse(each[0])
            if holds is None or holds(fields.as_text(each[1] or [])):
                found.append(each)
                if len(found) == size:
                    return found, scanned, last.next()
    return found, scanned, last.next() if last is not None and scanned == most else None


def _back(connection: Connection, name: bytes, start: StreamId, size: int, holds: Condition | None) -> Found:
    found: list[Entry] = []
    scanned = 0
    most = size if holds is None else _SCANNED
    for page in entries.pages_back(connection, name, start, most=most):
        for each in page:
            scanned += 1
            last = StreamId.parse(each[0])
            if holds is None or holds(fields.as_text(each[1] or [])):
                found.append(each)
            if len(found) == size or scanned == most:
                return found, scanned, last.before() if last > ZERO else None
    return found, scanned, None


def entry(asked: Asked) -> dict[str, Any]:
    """Return one entry. Values are cut after a mebibyte together; `sources` has the uncut texts without escapes."""
    name, wanted = asked.key("stream"), asked.id("id") or ZERO
    with asked.access.lend() as connection:
        found = paged_calls.ask(connection, "XRANGE", name, str(wanted), str(wanted))
    if not found:
        fail("NO_SUCH_ENTRY", stream=names.shown(name), id=wanted)
    pairs = fields.pairs(found[0][1] or [])
    at = StreamId.parse(found[0][0])
    left, sent = _ENTRY_BYTES, []
    for key, value in pairs[:200]:
        sent.append((key, value, max(left, _LEAST_BYTES)))
        left -= len(value)
    return {
        "id": str(at),
        "time": times.iso(at.ms),
        "bytes": sum(len(key) + len(value) for key, value in pairs),
        "fields": [[shapes.cut(key, 300), shapes.cut(value, most)] for key, value, most in sent],
        "sources": [_source(value, most) for _, value, most in sent],
        "more": max(0, len(pairs) - 200),
    }


def _source(value: bytes, most: int) -> str | None:
    """Return a whole value that is text; None if it is cut or is not UTF-8."""
    try:
        return value.decode() if len(value) <= most else None
    except UnicodeDecodeError:
        return None


def field_statistics(asked: Asked) -> dict[str, Any]:
    """What the fields of the last entries hold."""
    name = asked.key("stream")
    with asked.access.lend() as connection:
        length = int(paged_calls.ask(connection, "XLEN", name))
        page: list[Entry] = []
        for some in entries.pages_back(connection, name, LAST, most=_SAMPLE):
            page += some
    return {"sample": len(page), "length": length, "fields": statistics(page)}
