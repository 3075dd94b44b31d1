"""Removing streams and entries, in pages."""

from __future__ import annotations

from collections.abc import Sequence

from pystreams.streams.groups import agreed
from pystreams.streams.inventory import Stream
from pystreams.streams.paged_calls import ask, ask_all, pages
from streamclient.connection import Connection
from streamclient.errors import PystreamsError
from streamclient.reply_maps import pairs

_PAGE = 20  # maximum number of entries read at a time, to check that they exist


def streams(connection: Connection, found: Sequence[Stream]) -> list[PystreamsError]:
    """Remove streams that have not changed; their memory is freed in the background. Return an error for each of the
    others.
    """
    problems = []
    for each in found:
        try:
            agreed.carry_out(connection, each.name, [agreed.of_stream(each)], [("UNLINK", each.name)])
        except PystreamsError as failure:
            problems.append(failure)
    return problems


def present(connection: Connection, stream: bytes, ids: Sequence[bytes]) -> list[bytes]:
    """Return the IDs of `ids` that exist in the stream. Raises NO_SUCH_STREAM and NOT_A_STREAM."""
    ask(connection, "XINFO", "STREAM", stream)
    found: list[bytes] = []
    for page in pages(ids, _PAGE):
        replies = ask_all(connection, [("XRANGE", stream, entry_id, entry_id) for entry_id in page])
        found += [entry_id for entry_id, reply in zip(page, replies, strict=True) if reply]
    return found


def pending(connection: Connection, stream: bytes, ids: Sequence[bytes]) -> dict[bytes, int]:
    """Return the number of these entries that are pending, by group. Groups in which none is pending are omitted."""
    found: dict[bytes, int] = {}
    for info in map(pairs, ask(connection, "XINFO", "GROUPS", stream)):
        if info[b"pending"]:
            group = info[b"name"]
            for page in pages(ids):
                replies = ask_all(connection, [("XPENDING", stream, group, each, each, 1) for each in page])
                found[group] = found.get(group, 0) + sum(map(len, replies))
    return {group: count for group, count in found.items() if count}


def entries(connection: Connection, stream: bytes, ids: Sequence[bytes]) -> int:
    """Remove entries. Return the number that existed."""
    return sum(int(ask(connection, "XDEL", stream, *page)) for page in pages(ids))
