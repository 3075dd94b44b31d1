"""Checked calls: commands in pages of a few hundred, whose refusals are raised as errors with advice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from pystreams.errors import error
from pystreams.values.names import shown
from streamclient.commands import key_of
from streamclient.config.address import Endpoint
from streamclient.connection import BROKEN, Command, Connection
from streamclient.errors import PystreamsError, ResponseError
from streamclient.errors import error as client_error
from streamclient.refusals import refused

#: Number of streams or groups per page.
PAGE = 200

T = TypeVar("T")


_PAGE_BYTES = 1 << 20


def pages(
    items: Iterable[T], size: int = PAGE, bytes_of: Callable[[T], int] | None = None, most_bytes: int = _PAGE_BYTES
) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size` items and about `most_bytes`, as measured by `bytes_of`."""
    page: list[T] = []
    held = 0
    for item in items:
        page.append(item)
        held += 0 if bytes_of is None else bytes_of(item)
        if len(page) == size or held >= most_bytes:
            yield page
            page, held = [], 0
    if page:
        yield page


def failure(connection: Connection, command: Command, reply: Any) -> PystreamsError:
    """Return the error for an error reply to a command about a stream or a group."""
    text = str(reply)
    names = [word if isinstance(word, bytes) else str(word).encode() for word in command]
    at = 2 if str(command[0]).upper() in ("XINFO", "XGROUP") else 1
    stream = shown(names[at]) if len(names) > at else ""
    group = shown(names[at + 1]) if len(names) > at + 1 else ""
    if b"STREAMS" in names:  # XREAD, XREADGROUP: STREAMS is followed by names of streams, then by an ID for each
        read = names[names.index(b"STREAMS") + 1 :]
        stream, group = ", ".join(map(shown, read[: len(read) // 2])), shown(names[2])
    address = connection.address
    if "NOGROUP" in text:
        return error("NO_SUCH_GROUP", stream=stream, group=group, address=address)
    if "no such key" in text or "requires the key to exist" in text:
        return error("NO_SUCH_STREAM", stream=stream, address=address)
    if "WRONGTYPE" in text:
        return client_error("NOT_A_STREAM", stream=stream, address=address)
    if "BUSYGROUP" in text:
        return error("GROUP_EXISTS", stream=stream, group=group)
    return refused(address, command[0], reply, key_of(command))


def ask_all(connection: Connection, commands: Sequence[Command]) -> list[Any]:
    """Return the replies to these commands. Raises the first refusal."""
    replies = connection.pipeline(commands)
    for command, reply in zip(commands, replies, strict=True):
        if isinstance(reply, ResponseError):
            raise failure(connection, command, reply)
    return replies


def ask(connection: Connection, *command: bytes | str | int) -> Any:
    """Return the reply to one command. Raises an error if the server refuses the command."""
    return ask_all(connection, [command])[0]


def ask_server(connection: Connection, endpoint: Endpoint, commands: Sequence[Command]) -> list[Any]:
    """Return one server's replies, including refusals. A broken link is replaced once."""
    for last in (False, True):
        link = None
        try:
            link = connection.link_to(endpoint)
            return link.pipeline(commands)
        except BROKEN:
            connection.drop(link)
            if last:
                raise
    raise AssertionError("unreachable")


def number(value: Any) -> int | None:
    """Return a number in a reply; None if the reply does not contain it."""
    return None if value is None else int(value)


def now_ms(connection: Connection) -> int:
    """Return the server's time, on which IDs are based, or this machine's time if the user may not call TIME."""
    reply = connection.pipeline([("TIME",)])[0]
    if isinstance(reply, ResponseError):
        return round(time.time() * 1000)
    return int(reply[0]) * 1000 + int(reply[1]) // 1000
