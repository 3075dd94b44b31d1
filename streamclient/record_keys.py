"""Keys of the records of exactly-once writes: keys next to each stream, and keys of a whole query.

    {S}:S:NAME:PARTITION    fence of a task
    {S}:S:NAME:batch        batch record
    {S}:S:NAME:roll         partitions that have a fence
    {S}:S:NAME:staged:ID    staged rows
    {NAME}:ledger           batches of a query or of a write with this name
    {QUERY}:writes          writes from foreachBatch

All keys begin with `PREFIX`. S is the stream; {S} is a hash tag that maps to the stream's slot. The keys are stored on
servers: new keys may be added, but existing keys must not be renamed.
"""

from __future__ import annotations

import re

from streamwire.slots import same_slot_tag

PREFIX = b"pystreams:fence:"
_WRITER = re.compile(rb"(.+?):(?:[0-9]+|batch|roll|staged:[0-9a-f]+)", re.DOTALL)


def beside(stream: bytes) -> bytes:
    """Return the common prefix of the keys next to a stream."""
    return b"%b{%b}:%b:" % (PREFIX, same_slot_tag(stream), stream)


def of_query(name: bytes, kind: bytes) -> bytes:
    """Return a key that does not belong to one stream; `kind` is `ledger` or `writes`."""
    return b"%b{%b}:%b" % (PREFIX, name, kind)


def query_of(key: bytes) -> bytes:
    """Return the name in a result of `of_query`."""
    return key[len(PREFIX) + 1 : key.rindex(b"}")]


def writer_of(stream: bytes, key: bytes) -> bytes | None:
    """Return the name in a key next to the stream; None if it is not the key of a record."""
    match = _WRITER.fullmatch(key[len(beside(stream)) :])
    return match[1] if match else None
