"""Commands of streams and consumer groups."""

from engine.core.commands.streams import (
    claims,
    entries,
    extensions,
    groups,
    production,
    read_words,
    reading,
    stream_info,
)

__all__ = [
    "claims",
    "entries",
    "extensions",
    "groups",
    "production",
    "read_words",
    "reading",
    "stream_info",
]
