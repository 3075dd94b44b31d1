"""Pages of the audit log: the user, time, origin and content of each change, newest first."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote_to_bytes

from pystreams.dashboard.api.requests import Asked
from pystreams.dashboard.audit_log import RecordedChange

_LONGEST_OFFSET = 2**53
_SHOWN = ("time", "id", "event", "user", "from", "action", "stream", "key", "group", "consumer", "plan", "result")
_MOST_CHARACTERS = 2_000


def page(asked: Asked) -> dict[str, Any]:
    """Return a page of the changes of this server. `next` is the offset of the next page.

    A session that may see only some streams gets only changes of these streams. `rows` is None if there is no log.
    """
    if asked.audit is None:
        return {"rows": None, "next": None, "file": None}
    before = asked.number("at", 0, 0, _LONGEST_OFFSET) or None
    search = asked.text("search")[:200].lower()

    def wanted(changes: list[RecordedChange]) -> list[RecordedChange]:
        found = [each for each in changes if each.records[0].get("server") == asked.server and _has(each, search)]
        seen = asked.access.visible([_stream(each) for each in found])
        return [each for each in found if _stream(each) in seen]

    found, following = asked.audit.page(before, asked.number("size", 50, 1, 200), wanted)
    return {
        "rows": [_row(change) for change in found],
        "next": following,
        "file": str(asked.audit.path) if asked.access.session.whole else None,
    }


def _has(change: RecordedChange, search: str) -> bool:
    return any(search in " ".join(map(str, record.values())).lower() for record in change.records)


def _stream(change: RecordedChange) -> bytes:
    return unquote_to_bytes(str(change.records[0].get("key", "")))


def _row(change: RecordedChange) -> dict[str, Any]:
    """Return the row of a change: its last state, the time of its start, and the results of its requests by line."""
    results = "\n".join(str(each["result"]) for each in change.records if each.get("result"))
    record = {**change.records[-1], **change.records[0], "time": change.records[-1].get("time"), "result": results}
    texts = {name: str(record.get(name) or "")[:_MOST_CHARACTERS] for name in _SHOWN}
    before, after = (_pairs(record.get(name)) for name in ("before", "after"))
    changes = [[name, before.get(name, ""), after.get(name, "")] for name in dict.fromkeys((*before, *after))]
    return {**texts, "changes": changes, "more": record.get("more") is True}


def _pairs(value: Any) -> dict[str, str]:
    return {str(name)[:200]: str(text)[:200] for name, text in value.items()} if isinstance(value, dict) else {}
