"""The connector's records of what was written to a stream, on their way to another server with it.

A query that writes exactly once leaves records beside each of its streams (`pystreams:fence:{...}:STREAM:QUERY:WHAT`),
and one for all of them (`pystreams:fence:{QUERY}:ledger`). A batch that was broken off is finished by them. Without
them at the new place it would write again what is there already. All are hashes. Knows their names, not what they say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pystreams.streams.inventory import scan_pages
from pystreams.streams.paged_calls import ask, ask_all, pages
from streamclient.connection import Command, Connection
from streamwire.slots import same_slot_tag

_PREFIX = b"pystreams:fence:"
_WRITER = re.compile(rb"(.+?):(?:[0-9]+|batch|roll|staged:[0-9a-f]+)", re.DOTALL)
_SPECIAL = b"\\*?[]"  # what a glob reads otherwise


def find(connection: Connection, stream: bytes) -> list[bytes]:
    """Return the keys of the records of what was written to the stream."""
    beside = b"%b{%b}:%b:" % (_PREFIX, same_slot_tag(stream), stream)
    found: dict[bytes, bytes] = {}  # the names of those who wrote, by key
    for page in scan_pages(connection, _literally(beside) + b"*", "hash"):
        found |= {key: match[1] for key in page if (match := _WRITER.fullmatch(key[len(beside) :]))}
    ledgers = (b"%b{%b}:ledger" % (_PREFIX, name) for name in sorted(set(found.values())))
    return [*sorted(found), *(key for key in ledgers if ask(connection, "EXISTS", key))]


def copy(source: Connection, target: Connection, keys: list[bytes]) -> Iterator[int]:
    """Copy records, each with the time that it has left; those of the target are replaced. How many, page by page."""
    for page in pages(keys):
        asked: list[Command] = [("HGETALL", key) for key in page]
        left: list[Command] = [("PTTL", key) for key in page]
        replies = ask_all(source, [*asked, *left])
        for key, words, milliseconds in zip(page, replies, replies[len(page) :], strict=False):
            if not words:
                continue  # it has expired
            keep: list[Command] = [("PEXPIRE", key, milliseconds)] if milliseconds > 0 else []
            ask_all(target, [("MULTI",), ("DEL", key), ("HSET", key, *words), *keep, ("EXEC",)])
        yield len(page)


def _literally(text: bytes) -> bytes:
    """Return a glob that only this text matches."""
    return b"".join(b"\\" + bytes([byte]) if byte in _SPECIAL else bytes([byte]) for byte in text)
