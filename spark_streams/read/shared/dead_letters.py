"""Dead letters: entries that cannot be delivered go to a stream of their own, whole, with where and why.

An entry there has the fields of the original, and before them the connector's own, whose names begin with an
underscore: what somebody needs to judge the entry, repair it and add it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import redis

from spark_streams.client.connection import Command, Connection
from spark_streams.client.slots import slot_of
from spark_streams.codec.reply import Page
from spark_streams.errors import fail

if TYPE_CHECKING:
    from spark_streams.read.shared.protocol import Taker

_CHUNK = 500


def words(stream: str, entry_id: bytes, reason: str, deliveries: int, fields: Sequence[bytes]) -> list[bytes | str]:
    """The fields of a dead letter."""
    origin: list[bytes | str] = ["_stream", stream, "_id", entry_id, "_reason", reason, "_deliveries", str(deliveries)]
    return [*origin, *fields]


def move(connection: Connection, taker: Taker, page: Page, rows: Sequence[int], deliveries: Sequence[int]) -> None:
    """Move these rows of a page to the dead-letter stream, and acknowledge them.

    Both happen in one transaction where both streams live in one place; in a cluster the letter is written first, so
    that it is there twice rather than not at all.
    """
    ids = page.ids().to_pylist()
    target = taker.dead_letters or ""
    reason = f"delivered more than {taker.max_deliveries} times"
    for start in range(0, len(rows), _CHUNK):
        chunk = list(zip(rows[start : start + _CHUNK], deliveries[start : start + _CHUNK], strict=True))
        adds: list[Command] = [
            ("XADD", target, "*", *words(taker.stream, ids[row], reason, count, pairs_of(page, row)))
            for row, count in chunk
        ]
        ack: Command = ("XACK", taker.stream, taker.group, *(ids[row] for row, _ in chunk))
        if slot_of(target.encode()) == slot_of(taker.stream.encode()) or connection.address.kind != "cluster":
            replies = connection.link(taker.stream.encode()).pipeline([("MULTI",), *adds, ack, ("EXEC",)])
        else:
            replies = connection.pipeline(adds)
            if not any(isinstance(reply, redis.ResponseError) for reply in replies):
                replies = connection.pipeline([ack])
        for reply in replies:
            _check(connection, reply)


def pairs_of(page: Page, row: int) -> list[bytes]:
    """An entry's names and values, in turn."""
    offsets, names, values = page.fields()
    first, last = offsets[row].as_py(), offsets[row + 1].as_py()
    keys, texts = names.slice(first, last - first).to_pylist(), values.slice(first, last - first).to_pylist()
    return [word for pair in zip(keys, texts, strict=True) for word in pair]


def _check(connection: Connection, reply: Any) -> None:
    for one in reply if isinstance(reply, list) else [reply]:
        if isinstance(one, redis.ResponseError):
            fail("SERVER_REFUSED", address=connection.address, command="XADD", reason=one)
