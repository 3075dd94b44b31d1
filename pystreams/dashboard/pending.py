"""Entries that were not processed: pending entries of a group, and dead letters.

For a long list of pending entries, the histograms of their age and number of deliveries use a sample: sections at equal
distances between the first and last ID.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pystreams.dashboard import shapes
from pystreams.dashboard.requests import Asked
from pystreams.streams import dead_letters, entries, inventory, pending
from pystreams.streams.dead_letters import Letter
from pystreams.streams.paged_calls import ask, ask_all
from pystreams.streams.pending import Pending, Which
from pystreams.values import fields, times
from streamclient.connection import Command, Connection
from streamwire.stream_id import LAST, ZERO, StreamId

AGES_MS = (1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000)  # limits between the bars `AGE_NAMES`
GIVEN_BACK = "given back"
AGE_NAMES = ("< 1 s", "1–10 s", "10–60 s", "1–10 min", "10–60 min", "1–24 h", "> 1 day")
DELIVERIES = (2, 3, 5, 10, 20)  # smallest numbers of the bars `DELIVERY_NAMES`, except the first bar
DELIVERY_NAMES = ("1", "2", "3–4", "5–9", "10–19", "20 +")
_WHOLE = 20_000  # maximum number of pending entries that are read completely; longer lists are sampled
_STRETCHES, _STRETCH = 20, 500  # number of sections of a sample, and maximum number of entries in each
_MOST_EXAMINED = 20_000  # maximum number of entries examined per request to fill a page
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


_SAMPLE = 5_000  # number of last entries that the overview examines
_MOST_EXAMINED = 10_000  # maximum number of entries examined per request to fill a page
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
        "original": shapes.cut(found.original, 100),
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
