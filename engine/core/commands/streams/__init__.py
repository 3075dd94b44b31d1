"""Commands of streams and consumer groups."""

from engine.core.commands.streams import (
    adding,
    claims,
    deleting,
    extensions,
    groups,
    pending_entries,
    production,
    ranges,
    reading,
    stream_info,
)

__all__ = [
    "adding",
    "claims",
    "deleting",
    "extensions",
    "groups",
    "pending_entries",
    "production",
    "ranges",
    "reading",
    "stream_info",
]
