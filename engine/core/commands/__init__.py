"""One module per family of commands; importing this package fills the command table (:mod:`engine.core.registry`)."""

from engine.core.commands import (
    claims,
    extensions,
    groups,
    reading,
    stream_info,
    streams,
)

__all__ = [
    "claims",
    "extensions",
    "groups",
    "reading",
    "stream_info",
    "streams",
]
