"""Dead letters: an entry that was delivered too often is moved, whole, to a stream of its own.

The entry there begins with the fields `_original_stream`, `_original_id`, `_original_deliveries` and `_reason`. The
original's follow: what somebody needs to judge the entry, repair it and add it again. None of the names is a column of
the connector's own, so a schema can have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from spark_streams.client.connection import Command, Connection
from spark_streams.client.refusals import refused
from spark_streams.codec.reply import Page
from spark_streams.errors import fail
from spark_streams.read.shared.protocol import SharedTask
from streamwire.slots import slot_of

_CHUNK = 500


def move(connection: Connection, task: SharedTask, page: Page, rows: Sequence[int], deliveries: Sequence[int]) -> None:
    """Add these rows of a page to the dead-letter stream, and acknowledge them.

    `deliveries` has a number for each of `rows`. Both happen in one transaction where one node has both streams;
    otherwise the letters are added first, so that one may be there twice rather than not at all. Raises
    NOT_A_STREAM, before anything is changed, and SERVER_REFUSED.
    """
    ids = page.ids().to_pylist()
    target = task.dead_letters or ""
    found = connection.link(target.encode()).pipeline([("XINFO", "STREAM", target)])[0]
    if isinstance(found, redis.ResponseError) and str(found).startswith("WRONGTYPE"):
        fail("NOT_A_STREAM", stream=target, address=connection.address)  # XADD alone would fail in the transaction
    reason = f"delivered more than {task.max_deliveries} times"
    for start in range(0, len(rows), _CHUNK):
        chunk = list(zip(rows[start : start + _CHUNK], deliveries[start : start + _CHUNK], strict=True))
        adds: list[Command] = [
            ("XADD", target, "*", *_fields(task.stream, ids[row], reason, count, _pairs(page, row)))
            for row, count in chunk
        ]
        ack: Command = ("XACK", task.stream, task.group, *(ids[row] for row, _ in chunk))
        if slot_of(target.encode()) == slot_of(task.stream.encode()) or connection.address.kind != "cluster":
            replies = connection.link(task.stream.encode()).pipeline([("MULTI",), *adds, ack, ("EXEC",)])
        else:
            replies = connection.pipeline(adds)
            if not any(isinstance(reply, redis.ResponseError) for reply in replies):
                replies = connection.pipeline([ack])
        for reply in replies:
            _check(connection, reply)


def _fields(stream: str, entry_id: bytes, reason: str, deliveries: int, pairs: Sequence[bytes]) -> list[bytes | str]:
    """A dead letter's field names and values, in turn."""
    origin: dict[str, bytes | str] = {
        "_original_stream": stream,
        "_original_id": entry_id,
        "_original_deliveries": str(deliveries),
        "_reason": reason,
    }
    return [*(word for pair in origin.items() for word in pair), *pairs]


def _pairs(page: Page, row: int) -> list[bytes]:
    """An entry's field names and values, in turn."""
    offsets, names, values = page.fields()
    first, last = offsets[row].as_py(), offsets[row + 1].as_py()
    keys, texts = names.slice(first, last - first).to_pylist(), values.slice(first, last - first).to_pylist()
    return [word for pair in zip(keys, texts, strict=True) for word in pair]


def _check(connection: Connection, reply: Any) -> None:
    for one in reply if isinstance(reply, list) else [reply]:
        if isinstance(one, redis.ResponseError):
            raise refused(connection.address, "XADD", one)
