"""One module per family of commands; importing this package fills the command table (:mod:`engine.core.registry`)."""

from engine.core.commands import (
    claims,
    expiry,
    extensions,
    groups,
    hashes,
    keys,
    lists,
    pubsub,
    reading,
    stream_info,
    streams,
    strings,
    transactions,
)

__all__ = [
    "claims",
    "expiry",
    "extensions",
    "groups",
    "hashes",
    "keys",
    "lists",
    "pubsub",
    "reading",
    "stream_info",
    "streams",
    "strings",
    "transactions",
]
