"""Replies to many XADDs at once: a vectorised check for success, or the indexes and reasons of refused commands.

If the check does not prove success, hiredis parses the replies. This module depends on RESP2 and opens no sockets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import hiredis
import numpy as np

from streamclient.errors import ResponseError

_NOTHING = object()


def pack(*words: bytes | str | int) -> bytes:
    """Return a command, encoded in RESP."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        text = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(text), text))
    return b"".join(parts)


def parse(data: bytes) -> list[Any]:
    """Return all complete replies in `data`; an error reply is a `ResponseError` in the list."""
    reader = hiredis.Reader(replyError=ResponseError, notEnoughData=_NOTHING)
    reader.feed(data)
    replies = []
    while (reply := reader.gets()) is not _NOTHING:
        replies.append(reply)
    return replies


def end_of_ids(buffer: bytes | bytearray, start: int, stop: int, count: int) -> int:
    """Return the position after `count` IDs that begin at `start`; -1 if there is anything else among them.

    An ID is two lines. The first starts with `$` and a digit.
    """
    if not count:
        return start
    data = np.frombuffer(buffer, np.uint8, stop - start, start)
    ends = np.flatnonzero(data == 10)[: 2 * count]
    if ends.size < 2 * count:
        return -1
    starts = np.concatenate(([0], ends[1:-1:2] + 1))
    if not (np.all(data[starts] == 36) and np.all(data[starts + 1] != 45)):
        return -1
    return start + int(ends[-1]) + 1


@dataclass
class TransactionResult:
    """Outcome of a transaction. `done`: every command succeeded.

    `conflict`: a watched key was changed, so nothing was executed. `refusal`: error reply to a queued command or to
    EXEC, so that nothing was executed. `refused`: errors of single commands during execution, by their index. `tail`:
    the replies after the reply to EXEC.
    """

    done: bool = False
    conflict: bool = False
    refusal: str = ""
    refused: dict[int, str] = field(default_factory=dict)
    tail: list[Any] = field(default_factory=list)


def transaction_result(buffer: bytes | bytearray, stop: int, adds: int, others: int) -> TransactionResult:
    """Return the result of a transaction, given its replies in `buffer[:stop]`.

    The transaction consists of MULTI, `adds` XADDs, `others` other commands, and EXEC.
    """
    queued = adds + others
    head = b"+OK\r\n" + b"+QUEUED\r\n" * queued + b"*%d\r\n" % queued
    if buffer[: len(head)] == head:
        end = end_of_ids(buffer, len(head), stop, adds)
        if end >= 0:
            tail = parse(bytes(buffer[end:stop]))
            if not any(isinstance(reply, ResponseError) for reply in tail[:others]):
                return TransactionResult(done=True, tail=tail[others:])
    replies = parse(bytes(buffer[:stop]))
    for reply in replies[: queued + 1]:
        if isinstance(reply, ResponseError):
            return TransactionResult(refusal=str(reply))
    executed = replies[queued + 1]
    if executed is None:
        return TransactionResult(conflict=True)
    if isinstance(executed, ResponseError):
        return TransactionResult(refusal=str(executed))
    refused = {at: str(reply) for at, reply in enumerate(executed) if isinstance(reply, ResponseError)}
    refused |= {at: "the stream does not exist" for at, reply in enumerate(executed[:adds]) if reply is None}
    return TransactionResult(done=not refused, refused=refused, tail=replies[queued + 2 :])
