"""The connector's records of exactly-once writes, copied to another server together with their stream.

A query that writes exactly once leaves records next to each of its streams, and one record for all streams
(`streamclient.record_keys`). The query needs them to finish an interrupted batch. Without the records on the new
server, the query would write existing rows again. All records are hashes. This module depends on their names, not on
their contents.
"""

from __future__ import annotations

from collections.abc import Iterator

from pystreams.streams.inventory import scan_pages
from pystreams.streams.paged_calls import ask, ask_all, pages
from streamclient import record_keys
from streamclient.connection import Command, Connection

_SPECIAL = b"\\*?[]"  # characters with a meaning in globs


def find(connection: Connection, stream: bytes) -> list[bytes]:
    """Return the keys of the records about exactly-once writes to the stream."""
    found: dict[bytes, bytes] = {}  # names of the writing queries, by key
    for page in scan_pages(connection, _literally(record_keys.beside(stream)) + b"*", "hash"):
        found |= {key: name for key in page if (name := record_keys.writer_of(stream, key))}
    ledgers = (record_keys.of_query(name, b"ledger") for name in sorted(set(found.values())))
    return [*sorted(found), *(key for key in ledgers if ask(connection, "EXISTS", key))]


def copy(source: Connection, target: Connection, keys: list[bytes]) -> Iterator[int]:
    """Copy records with their remaining time to live, replacing existing records of the target.

    Yields the number of processed records per page. Records that have expired are not copied.
    """
    for page in pages(keys):
        requested: list[Command] = [("HGETALL", key) for key in page]
        left: list[Command] = [("PTTL", key) for key in page]
        replies = ask_all(source, [*requested, *left])
        for key, words, milliseconds in zip(page, replies, replies[len(page) :], strict=False):
            if not words:
                continue  # the record has expired
            keep: list[Command] = [("PEXPIRE", key, milliseconds)] if milliseconds > 0 else []
            ask_all(target, [("MULTI",), ("DEL", key), ("HSET", key, *words), *keep, ("EXEC",)])
        yield len(page)


def _literally(text: bytes) -> bytes:
    """Return a glob that matches only this text."""
    return b"".join(b"\\" + bytes([byte]) if byte in _SPECIAL else bytes([byte]) for byte in text)
