"""Check that a checkpoint belongs to the query that continues it.

The query must consume in the same way, from the same database and, if shared, from the same group. A query may add and
remove streams. If it has no stream in common with its checkpoint, it counts as another query, because it would read
everything again or wait indefinitely.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Collection, Iterable
from dataclasses import replace

from spark_streams.config.read import ReadOptions
from spark_streams.errors import fail
from spark_streams.read.query.offsets import Offsets, Source
from streamclient.config.address import Address

_log = logging.getLogger("spark_streams")


def source_of(options: ReadOptions, address: Address, begin: Offsets | None = None) -> Source:
    """Return the identity of a query with these options, for its offsets.

    The query's ID is that of the offset `begin`. Without `begin`, the ID is new.
    """
    pattern = options.pattern
    streams = tuple(sorted(options.streams)) if pattern is None else ()
    return Source(options.consume, streams, pattern, options.group, query_of(begin), address.login.database)


def source_without_begin(options: ReadOptions, address: Address) -> Source:
    """Return the identity of a query without a previous offset.

    The query's ID is derived from its streams, its group and its consumer prefix.
    """
    made = replace(source_of(options, address), query="")
    text = json.dumps([made.to_json(), options.consumer])
    return replace(made, query=hashlib.sha256(text.encode()).hexdigest()[:16])


def query_of(begin: Offsets | None) -> str:
    """Return the ID of the query that has this offset, or a new ID for a new query.

    An offset of an earlier version has no ID. Then the ID is derived from the offset, so that a restart finds the same
    ID.
    """
    if begin is None:
        return secrets.token_hex(8)
    if begin.source is not None:
        return begin.source.query
    return hashlib.sha256(json.dumps(begin.to_json()).encode()).hexdigest()[:16]


def same_streams(options: ReadOptions, begin: Offsets) -> bool:
    """Return whether the query selects its streams as the offset records; True if the offset does not record this."""
    source = begin.source
    return source is None or (source.pattern, set(source.streams)) == (options.pattern, set(options.streams))


def check(options: ReadOptions, address: Address, begin: Offsets, found: Collection[str] | None) -> None:
    """Refuse a checkpoint of another query, and log which streams were added or removed.

    `found`: the streams that the query reads now; None if its pattern was not resolved yet. Raises CHECKPOINT_MODE,
    CHECKPOINT_DATABASE, CHECKPOINT_GROUP or CHECKPOINT_STREAMS.
    """
    was = "range" if begin.shared is None else "shared"
    if was != options.consume:
        fail("CHECKPOINT_MODE", was=was, now=options.consume)
    source = begin.source
    if source is not None and source.database != address.login.database:
        fail("CHECKPOINT_DATABASE", was=source.database, now=address.login.database, address=address)
    if begin.shared is not None and source is not None and source.group != options.group:
        fail("CHECKPOINT_GROUP", was=source.group, now=options.group)
    if found is None or (source is not None and same_streams(options, begin)):
        return
    known = set(begin.streams) if begin.shared is None else set(() if source is None else source.streams)
    if options.pattern is not None and source is None and not found:
        return
    if known and not known & set(found):
        now = options.pattern or _names(found)
        fail("CHECKPOINT_STREAMS", was=_named(source, known), now=now, positions=_positions(begin))
    if source is None and options.pattern is not None:
        return
    before = known if source is None or source.pattern is not None else set(source.streams)
    added, removed = set(found) - before, before - set(found)
    if added:
        _log.warning("The query now also reads %s, which its checkpoint does not name.", _names(added))
    if removed:
        _log.warning("The query no longer reads %s, which its checkpoint names.", _names(removed))


def _named(source: Source | None, known: Iterable[str]) -> str:
    return source.pattern if source is not None and source.pattern is not None else _names(known)


def _names(streams: Iterable[str]) -> str:
    return ", ".join(sorted(streams))


def _positions(begin: Offsets) -> str:
    """Return the positions of the checkpoint as a value of startingOffsets."""
    return json.dumps({stream: f"({after}" for stream, after in sorted(begin.streams.items())})
