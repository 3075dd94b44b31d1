"""One stream and its groups: measures, pages of entries, and pages of consumers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from pystreams import measures
from pystreams.dashboard import shapes
from pystreams.dashboard.reading import Reader
from pystreams.dashboard.requests import Asked
from pystreams.errors import fail
from pystreams.measures import StreamRow
from pystreams.streams import entries, inventory, paged_calls, seeks
from pystreams.streams import group_states as of_groups
from pystreams.values import fields, names, times
from pystreams.values.conditions import Condition, parse
from pystreams.values.fields import Entry
from streamclient.connection import Connection
from streamwire.stream_id import LAST, ZERO, StreamId

_MEASURES = tuple(each for each in measures.STREAM if each.name not in ("lag", "behind", "pending", "status"))
_CURVES = tuple(each.name for each in measures.STREAM if each.has_history)
_CURVES_OF_GROUP = tuple(each.name for each in measures.GROUP if each.has_history)
_SORTS = {each.name: each for each in measures.CONSUMER}
_MOST_GROUPS = 200
_STEP_SECONDS = 0.5  # time limit of one step of a search
_SCANNED = 5_000  # maximum number of entries examined per request with a condition
_CONDITION = 1_000  # maximum number of characters of a condition
_ENTRY_BYTES = 1 << 20  # maximum total bytes of an entry's values that are sent untruncated
_LEAST_BYTES = 2_000  # bytes that are sent of each further value once `_ENTRY_BYTES` is used up


def stream(asked: Asked) -> dict[str, Any]:
    """Return the measures of a stream, the groups with the largest lags, and curves of the last hour."""
    name = asked.key("stream")
    with asked.access.lend() as connection:
        now = paged_calls.now_ms(connection)
        found = inventory.need(connection, name)
        groups = list(of_groups.groups_of(connection, [found], now))
        furthest = sorted(groups, key=lambda each: -(each.lag or 0))[:_MOST_GROUPS]
        shown = list(of_groups.detailed(connection, furthest))
    rows = list(map(asked.snapshot.judged, shown))
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
    """Return the parsed condition; None if `text` is empty."""
    if len(text) > _CONDITION:
        fail("INVALID_VALUE", name="Where", value="...", expected=f"it may have at most {_CONDITION} characters")
    return parse(text, "Where") if text.strip() else None


def browse(asked: Asked) -> dict[str, Any]:
    """Return a page of entries from position `at` to position `to`, forwards (`order=rising`) or backwards.

    With a condition, this is one step of a search, which examines a limited number of entries. `next` is the cursor for
    the next step or page, None at the end of the range.
    """
    name = asked.key("stream")
    rising = asked.choice("order", ("rising", "falling"), "falling") == "rising"
    size = asked.number("size", 50, 1, 200)
    holds = condition(asked.text("where"))
    reader = asked.reader(name)
    with asked.access.lend() as connection:
        inventory.need(connection, name)
        begin, end = (
            _at(connection, name, text, ZERO if (at == 0) == rising else LAST) if text else None
            for at, text in enumerate((asked.text("at").strip(), asked.text("to").strip()))
        )
        start = asked.id("cursor") or (begin if begin is not None else ZERO if rising else LAST)
        most = size if holds is None else _SCANNED
        if rising:
            pages = entries.pages(connection, name, start.before() if start > ZERO else ZERO, end or LAST, most=most)
        else:
            pages = entries.pages_back(connection, name, start, most=most)
        step = _step(pages, holds, reader, size, most, None if rising else end)
    last = (
        None if step.last is None else step.last.next() if rising else step.last.before() if step.last > ZERO else None
    )
    following = last if step.more else None
    return {
        "rows": [shapes.entry(each) for each in step.found],
        "scanned": step.scanned,
        "unseen": holds.unseen if holds is not None and holds.checked else [],
        "next": None if following is None else str(following),
    }


def _at(connection: Connection, name: bytes, text: str, least: StreamId) -> StreamId:
    """Return the ID of a position: an ID, a time, a duration ago, `start` or `end`.

    If no entry can be before the position, as for `start`, the ID is the smaller of `least` and 0-1.
    """
    position = times.position(text, "at")
    if position.kind == "end":
        return LAST
    if position.kind == "id" and position.id is not None:
        return position.id
    after = entries.after_of(connection, inventory.need(connection, name), position, paged_calls.now_ms(connection))
    return after.next() if after != ZERO else min(least, after.next())


@dataclass
class _Step:
    """Result of one step of a search. `last`: ID of the last examined entry; `more`: whether entries may follow."""

    found: list[Entry] = field(default_factory=list)
    scanned: int = 0
    last: StreamId | None = None
    more: bool = False


def _step(
    pages: Iterable[list[Entry]], holds: Condition | None, reader: Reader, size: int, most: int, lowest: StreamId | None
) -> _Step:
    """Examine entries until `size` match, `most` were examined, the time limit passed, or an ID is below `lowest`."""
    step, deadline = _Step(), time.monotonic() + _STEP_SECONDS
    for page in pages:
        for entry_id, words in page:
            at = StreamId.parse(entry_id)
            if lowest is not None and at < lowest:
                step.more = False
                return step
            step.scanned += 1
            step.last = at
            entry_reader = reader.of((entry_id, words))
            shown = entry_reader.words(words)
            if holds is None or holds(entry_reader.members(shown)):
                step.found.append((entry_id, entry_reader.texts(shown)))
            if len(step.found) == size or step.scanned == most:
                step.more = True
                return step
        if time.monotonic() > deadline:
            step.more = True
            return step
    return step


def entry(asked: Asked) -> dict[str, Any]:
    """Return one entry.

    After a mebibyte of values in total, at most 2,000 bytes of each value are sent. `sources`: the text of each value
    without escapes, or None if the value is truncated or not UTF-8. `more`: number of fields that are omitted.
    """
    name, wanted = asked.key("stream"), asked.id("id") or ZERO
    with asked.access.lend() as connection:
        found = paged_calls.ask(connection, "XRANGE", name, str(wanted), str(wanted))
    if not found:
        fail("NO_SUCH_ENTRY", stream=names.shown(name), id=wanted)
    reader = asked.reader(name).of(found[0])
    pairs = fields.pairs(reader.words(found[0][1]))
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
        "decoded": [reader.decoded(value) if len(value) <= most else None for _, value, most in sent],
        "sources": [_source(value, most) for _, value, most in sent],
        "more": max(0, len(pairs) - 200),
    }


def _source(value: bytes, most: int) -> str | None:
    """Return the text of a value; None if it is longer than `most` or not UTF-8."""
    try:
        return value.decode() if len(value) <= most else None
    except UnicodeDecodeError:
        return None


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
        "first": None if found.stream.first_id is None else str(found.stream.first_id),
        "now": found.at,
        "query": None if owner is None else {"prefix": owner[0], "consume": owner[1]},
        "consumer_rows": [shapes.consumer(each) for each in consumers[first : first + size]],
        "curves": {kind: shapes.curve(asked.sampler.curve(kind, stream, name)) for kind in _CURVES_OF_GROUP},
    }
