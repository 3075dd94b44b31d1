"""One stream and its groups: measures, pages of entries and consumers, pending entries, and dead letters.

For a long list of pending entries, the histograms of their age and number of deliveries use a sample: sections at equal
distances between the first and last ID.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pystreams import measures
from pystreams.dashboard import shapes
from pystreams.dashboard.reading import Reader
from pystreams.dashboard.requests import Asked
from pystreams.errors import fail
from pystreams.measures import StreamRow
from pystreams.streams import dead_letters, entries, inventory, paged_calls, pending, seeks
from pystreams.streams import group_states as of_groups
from pystreams.streams.dead_letters import Letter
from pystreams.streams.paged_calls import ask, ask_all
from pystreams.streams.pending import Pending, Which
from pystreams.values import fields, names, times
from pystreams.values.conditions import Condition, parse
from pystreams.values.fields import Entry
from streamclient.connection import Command, Connection
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


# --- pending entries --------------------------------------------------------------------------------------------------

AGES_MS = (1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000)  # limits between the bars `AGE_NAMES`
GIVEN_BACK = "given back"
AGE_NAMES = ("< 1 s", "1–10 s", "10–60 s", "1–10 min", "10–60 min", "1–24 h", "> 1 day")
DELIVERIES = (2, 3, 5, 10, 20)  # smallest numbers of the bars `DELIVERY_NAMES`, except the first bar
DELIVERY_NAMES = ("1", "2", "3–4", "5–9", "10–19", "20 +")
_WHOLE = 20_000  # maximum number of pending entries that are read completely; longer lists are sampled
_STRETCHES, _STRETCH = 20, 500  # number of sections of a sample, and maximum number of entries in each
_MOST_EXAMINED = 10_000  # maximum number of entries examined per request to fill a page
_MOST_CONSUMERS = 100


def which(asked: Asked) -> Which:
    """Return the requested selection of entries."""
    idle = asked.text("idle")
    return Which(
        asked.ids("ids"),
        asked.key_or_none("consumer"),
        times.duration(idle, "idle") if idle else 0,
        asked.number("deliveries", 0, 0, 1_000_000),
    )


def histogram(found: Sequence[Pending]) -> dict[str, Any]:
    """Return the number of entries by idle time and by deliveries.

    Entries that were given back (XNACK) have no idle time.
    """
    ages, deliveries, free = [0] * len(AGE_NAMES), [0] * len(DELIVERY_NAMES), 0
    for entry in found:
        if entry.idle_ms is None:
            free += 1
        else:
            ages[bisect_right(AGES_MS, entry.idle_ms)] += 1
        deliveries[bisect_right(DELIVERIES, entry.deliveries)] += 1
    return {
        "ages": [list(pair) for pair in zip(AGE_NAMES, ages, strict=True)] + ([[GIVEN_BACK, free]] if free else []),
        "deliveries": [list(pair) for pair in zip(DELIVERY_NAMES, deliveries, strict=True)],
    }


def sample(connection: Connection, stream: bytes, group: bytes) -> tuple[int, list[Pending], list[list[Any]]]:
    """Return the number of pending entries, the entries or a sample of them, and the number for each consumer.

    The numbers for consumers are pairs of name and number, largest number first.
    """
    ask(connection, "XINFO", "STREAM", stream)
    total, low, high, consumers = ask(connection, "XPENDING", stream, group)
    total = int(total)
    ranked = sorted(([name, int(count)] for name, count in consumers or ()), key=lambda each: (-each[1], each[0]))
    if not total:
        return 0, [], []
    if total <= _WHOLE:
        return total, [each for page in pending.find(connection, stream, group, Which()) for each in page], ranked
    first, last = StreamId.parse(low), StreamId.parse(high)
    starts = [first.ms + (last.ms - first.ms) * at // _STRETCHES for at in range(_STRETCHES)]
    commands: list[Command] = [
        ("XPENDING", stream, group, f"{start}-0", f"{end - 1}" if end is not None else "+", _STRETCH)
        for start, end in zip(starts, [*starts[1:], None], strict=True)
        if end is None or end > start
    ]
    rows = [row for reply in ask_all(connection, commands) for row in reply]
    return total, list(map(pending.parsed, rows)), ranked


def pending_overview(asked: Asked) -> dict[str, Any]:
    """Return the number of pending entries by consumer, age and number of deliveries."""
    stream, group = asked.key("stream"), asked.key("group")
    with asked.access.lend() as connection:
        total, found, consumers = sample(connection, stream, group)
    return {
        "total": total,
        "sample": len(found),
        **histogram(found),
        "given_back": max(0, total - sum(count for _, count in consumers)),
        "consumers": [{"name": shapes.name(name), "pending": count} for name, count in consumers[:_MOST_CONSUMERS]],
    }


def pending_entries(asked: Asked) -> dict[str, Any]:
    """Return a page of the selected entries, starting at an ID. `next` is the start of the next page."""
    stream, group = asked.key("stream"), asked.key("group")
    size = asked.number("size", 50, 1, 200)
    meant = which(asked)
    found: list[Pending] = []
    following: StreamId | None = asked.id("after") or ZERO
    examined = 0
    with asked.access.lend() as connection:
        while following is not None and len(found) < size and examined < _MOST_EXAMINED:
            consumer: Command = () if meant.consumer is None else (meant.consumer,)
            asked_for = min(1000, size if meant.is_all else 1000)
            rows = ask(connection, "XPENDING", stream, group, str(following), "+", asked_for, *consumer)
            examined += len(rows)
            following = StreamId.parse(rows[-1][0]).next() if len(rows) == asked_for else None
            for row in rows:
                entry = pending.parsed(row)
                if meant.has(entry):
                    found.append(entry)
                if len(found) == size:
                    following = StreamId.parse(row[0]).next()
                    break
    return {
        "rows": [
            {
                "id": each.id.decode("ascii", "replace"),
                "consumer": shapes.name(each.consumer),
                "idle_ms": each.idle_ms,
                "deliveries": each.deliveries,
            }
            for each in found
        ],
        "looked": examined,
        "next": None if following is None else str(following),
    }


# --- dead letters -----------------------------------------------------------------------------------------------------

_SAMPLE = 5_000  # number of last entries that the overview examines
_MOST = 20  # maximum number of reasons and of origins in the overview
_REASON = 160  # maximum number of bytes of a reason in the overview


def holders(asked: Asked) -> dict[str, Any]:
    """Return the longest streams (at most 200) whose last entry is a dead letter, and the number of all such streams.

    Only streams that the session may see are included. The sampler searches for them once in 30 samples.
    """
    snapshot = asked.snapshot
    rows = [snapshot.streams[name] for name in snapshot.letters]
    seen = asked.access.visible([row.stream.name for row in rows])
    visible = [row for row in rows if row.stream.name in seen]
    visible.sort(key=lambda row: -row.stream.length)
    return {"rows": [shapes.stream(row) for row in visible[:200]], "total": len(visible)}


def which_letters(asked: Asked, now: int) -> dead_letters.Which:
    """Return the requested selection of letters."""
    reason, older = asked.text("reason"), asked.text("older")
    before = StreamId(max(0, now - times.duration(older, "older")), 0) if older else None
    return dead_letters.Which(
        asked.ids("ids"), asked.key_or_none("origin"), reason.encode() if reason else None, before
    )


def _short(reason: bytes) -> str:
    """Return the first line of a reason, because later lines differ between letters."""
    return shapes.cut(reason.split(b"\n", 1)[0][:_REASON])


def letters_overview(asked: Asked) -> dict[str, Any]:
    """Return the number of a stream's last letters by reason and by original stream."""
    name = asked.key("stream")
    with asked.access.lend() as connection:
        found = inventory.need(connection, name)
        examined = [each for page in entries.pages_back(connection, name, LAST, most=_SAMPLE) for each in page]
    reader = asked.reader(name)
    heads = (reader.entry((entry_id, words[: dead_letters.HEAD])) for entry_id, words in examined)
    letters = [letter for letter in map(dead_letters.parsed, heads) if letter is not None]
    reasons = Counter(_short(letter.reason) for letter in letters)
    origins = Counter(letter.stream for letter in letters)
    return {
        "length": found.length,
        "looked": len(examined),
        "sample": len(letters),
        "reasons": [[reason, count] for reason, count in reasons.most_common(_MOST)],
        "origins": [{"name": shapes.name(origin), "count": count} for origin, count in origins.most_common(_MOST)],
    }


def letter(found: Letter) -> dict[str, Any]:
    """Return the JSON form of a dead letter, with at most sixty fields."""
    pairs = fields.pairs(found.words)
    return {
        "id": found.id.decode("ascii", "replace"),
        "stream": shapes.name(found.stream),
        "deliveries": found.deliveries,
        "reason": shapes.cut(found.reason),
        "fields": [[shapes.cut(key, 300), shapes.cut(value)] for key, value in pairs[:60]],
    }


def letters_page(asked: Asked) -> dict[str, Any]:
    """Return a page of the letters with the requested origin and reason, newest first, starting at an ID.

    `next` is the start of the next page.
    """
    name = asked.key("stream")
    size = asked.number("size", 50, 1, 200)
    start = asked.id("at") or LAST
    meant, reader = which_letters(asked, asked.snapshot.at), asked.reader(name)
    found: list[Letter] = []
    examined, following = 0, None
    with asked.access.lend() as connection:
        for some in entries.pages_back(connection, name, start, most=_MOST_EXAMINED):
            for each in some:
                examined += 1
                candidate = dead_letters.parsed(reader.entry(each))
                if candidate is not None and meant.has(candidate):
                    found.append(replace(candidate, words=reader.of(each).texts(candidate.words)))
                if len(found) == size or examined == _MOST_EXAMINED:
                    following = str(StreamId.parse(each[0]).before())
                    break
            if following is not None:
                break
    return {
        "rows": list(map(letter, found)),
        "looked": examined,
        "next": following,
    }
