"""Replies about streams as values: the state of a stream, and of a group in it. This module sends nothing."""

from __future__ import annotations

from typing import Any

from streamclient.connection import Connection
from streamclient.errors import fail
from streamclient.refusals import refused
from streamclient.reply_maps import pairs
from streamclient.streams.model import GroupState, StreamState
from streamclient.wire_errors import ResponseError
from streamwire.stream_id import StreamId


def checked(connection: Connection, stream: str | bytes, reply: Any, command: str) -> Any:
    """Return the reply; None if it says that the key or the group does not exist. Other refusals are raised."""
    if isinstance(reply, ResponseError):
        text = str(reply)
        if "no such key" in text or "requires the key to exist" in text or text.startswith("NOGROUP"):
            return None
        if "WRONGTYPE" in text or "wrong kind of value" in text:
            fail("NOT_A_STREAM", stream=_text(stream), address=connection.address)
        raise refused(connection.address, command, text, _text(stream))
    return reply


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "replace")


def stream_state(reply: Any, group: GroupState | None) -> StreamState:
    """Return the state in a reply of XINFO STREAM, or of the script that omits the entries' values. `group`: state of
    one of its groups.
    """
    info = pairs(reply)
    first = info.get(b"first-entry")
    return StreamState(
        last_id=StreamId.parse(info[b"last-generated-id"]),
        length=int(info[b"length"]),
        first_id=StreamId.parse(first[0] if isinstance(first, list) else first) if first else None,
        group=group,
        entries_added=_number(info.get(b"entries-added")),
        max_deleted_id=StreamId.parse(info.get(b"max-deleted-entry-id", b"0-0")),
    )


def group_state(replies: Any, group: str | None) -> GroupState | None:
    """Return the state of that group in a reply of XINFO GROUPS; None if it is missing."""
    for info in map(pairs, replies or ()):
        if group is not None and info[b"name"] == group.encode():
            return GroupState(
                last_delivered_id=StreamId.parse(info[b"last-delivered-id"]),
                lag=_number(info.get(b"lag")),
                pending=int(info[b"pending"]),
                entries_read=_number(info.get(b"entries-read")),
            )
    return None


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
