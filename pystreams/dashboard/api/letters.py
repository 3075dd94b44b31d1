"""Dead letters: the streams that contain them, their reasons and origins, and pages of letters."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from pystreams.dashboard.api import shapes
from pystreams.dashboard.api.requests import Asked
from pystreams.streams import dead_letters, entries, inventory
from pystreams.streams.dead_letters import Letter, Which
from pystreams.values import fields, times
from streamwire.stream_id import LAST, StreamId

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


def which(asked: Asked, now: int) -> Which:
    """Return the requested selection of letters."""
    reason, older = asked.text("reason"), asked.text("older")
    before = StreamId(max(0, now - times.duration(older, "older")), 0) if older else None
    return Which(asked.ids("ids"), asked.key_or_none("origin"), reason.encode() if reason else None, before)


def _short(reason: bytes) -> str:
    """Return the first line of a reason, because later lines differ between letters."""
    return shapes.cut(reason.split(b"\n", 1)[0][:_REASON])


def overview(asked: Asked) -> dict[str, Any]:
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


def page(asked: Asked) -> dict[str, Any]:
    """Return a page of the letters with the requested origin and reason, newest first, starting at an ID.

    `next` is the start of the next page.
    """
    name = asked.key("stream")
    size = asked.number("size", 50, 1, 200)
    start = asked.id("at") or LAST
    meant, reader = which(asked, asked.snapshot.at), asked.reader(name)
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
