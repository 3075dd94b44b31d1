"""Pages of the audit log: the user, time, origin and content of each change, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from pystreams.dashboard.api.requests.parameters import Asked

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

    def wanted(record: Mapping[str, Any]) -> bool:
        return record.get("server") == asked.server and search in " ".join(map(str, record.values())).lower()

    found, following = asked.audit.page(before, asked.number("size", 50, 1, 200), wanted)
    ended = {record.get("id") for record in found if record.get("event") != "begun"}
    records = [record for record in found if record.get("event") != "begun" or record.get("id") not in ended]
    streams = {str(record.get("key", "")): unquote_to_bytes(str(record.get("key", ""))) for record in records}
    seen = asked.access.visible(list(streams.values()))
    return {
        "rows": [_row(record) for record in records if streams[str(record.get("key", ""))] in seen],
        "next": following,
        "file": str(asked.audit.path) if asked.access.session.whole else None,
    }


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: str(record.get(name) or "")[:_MOST_CHARACTERS] for name in _SHOWN}
    before, after = (_pairs(record.get(name)) for name in ("before", "after"))
    changes = [[name, before.get(name, ""), after.get(name, "")] for name in dict.fromkeys((*before, *after))]
    return {**texts, "changes": changes, "more": record.get("more") is True}


def _pairs(value: Any) -> dict[str, str]:
    return {str(name)[:200]: str(text)[:200] for name, text in value.items()} if isinstance(value, dict) else {}
