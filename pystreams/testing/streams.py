"""Entries of streams as plain data, which a test adds or expects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import redis

from pystreams.testing.servers import Clock


@dataclass(frozen=True)
class Server:
    """A server under test: its URL, and its clock, which is None for a real Redis."""

    url: str
    port: int
    movable: Clock | None = None

    @cached_property
    def client(self) -> redis.Redis:
        """A redis-py client that returns text."""
        made: redis.Redis = redis.Redis.from_url(self.url, decode_responses=True)
        return made

    @property
    def clock(self) -> Clock:
        """The server's clock. Raises TypeError for a real Redis, which uses the machine's clock."""
        if self.movable is None:
            raise TypeError(f"the clock of {self.url} cannot be moved: use the engine")
        return self.movable

    def options(self, stream: str, **others: str) -> dict[str, str]:
        """Return options of the data source for a stream of this server."""
        return {"url": self.url, "stream": stream, **others}


class Entry(dict[str, str]):
    """The fields of an entry, equal to a dictionary with the same fields; `id` is its ID."""

    def __init__(self, entry_id: str, fields: Mapping[str, str]) -> None:
        super().__init__(fields)
        self.id = entry_id


def add(server: Server, stream: str, *rows: Mapping[str, Any]) -> list[str]:
    """Add an entry for each row and return their IDs. Values are written as text; fields that are None are omitted."""
    with server.client.pipeline(transaction=False) as commands:
        for row in rows:
            commands.xadd(stream, {name: _text(value) for name, value in row.items() if value is not None})
        return [str(each) for each in commands.execute()]


def _text(value: Any) -> str | bytes:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, bytes) else str(value)


def entries(server: Server, stream: str) -> list[Entry]:
    """Return all entries of a stream, oldest first; an empty list if the stream does not exist."""
    found: Any = server.client.xrange(stream)
    return [Entry(each, fields) for each, fields in found]
