"""Replies to many XADDs, judged as bytes: all well at a glance, or which of them was refused and how.

Knows the protocol's frames, RESP2; no sockets. The glance declines whatever it is not sure of, and the parser decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import hiredis
import numpy as np
import redis

_NOTHING = object()


def pack(*words: bytes | str | int) -> bytes:
    """A command as it goes over the wire."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        text = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(text), text))
    return b"".join(parts)


def parse(data: bytes) -> list[Any]:
    """All replies there; errors stand as `redis.ResponseError`."""
    reader = hiredis.Reader(replyError=redis.ResponseError, notEnoughData=_NOTHING)
    reader.feed(data)
    replies = []
    while (reply := reader.gets()) is not _NOTHING:
        replies.append(reply)
    return replies


def added(buffer: bytes | bytearray, start: int, stop: int, count: int) -> int:
    """Where `count` IDs end that begin at `start`; -1 if that is not what lies there.

    Two lines each, of which the first begins with `$` and a digit.
    """
    data = np.frombuffer(buffer, np.uint8, stop - start, start)
    ends = np.flatnonzero(data == 10)[: 2 * count]
    if ends.size < 2 * count:
        return -1
    starts = np.concatenate(([0], ends[1:-1:2] + 1))
    if not (np.all(data[starts] == 36) and np.all(data[starts + 1] != 45)):
        return -1
    return start + int(ends[-1]) + 1


@dataclass
class Outcome:
    """What became of a transaction: `done`, or why not.

    `conflict` if the fence was changed meanwhile; `refusal` if a command was refused, so that nothing was executed;
    `refused` the refusals of single commands of one that was executed, by their place. `tail`: the replies after it.
    """

    done: bool = False
    conflict: bool = False
    refusal: str = ""
    refused: dict[int, str] = field(default_factory=dict)
    tail: list[Any] = field(default_factory=list)


def outcome(buffer: bytes | bytearray, stop: int, adds: int, others: int) -> Outcome:
    """The outcome of MULTI, `adds` XADDs, `others` other commands and EXEC, from the replies to all of them."""
    queued = adds + others
    head = b"+OK\r\n" + b"+QUEUED\r\n" * queued + b"*%d\r\n" % queued
    if buffer[: len(head)] == head:
        end = added(buffer, len(head), stop, adds)
        if end >= 0:
            tail = parse(bytes(buffer[end:stop]))
            if not any(isinstance(reply, redis.ResponseError) for reply in tail[:others]):
                return Outcome(done=True, tail=tail[others:])
    replies = parse(bytes(buffer[:stop]))
    for reply in replies[: queued + 1]:
        if isinstance(reply, redis.ResponseError):
            return Outcome(refusal=str(reply))
    executed = replies[queued + 1]
    if executed is None:
        return Outcome(conflict=True)
    if isinstance(executed, redis.ResponseError):
        return Outcome(refusal=str(executed))
    refused = {at: str(reply) for at, reply in enumerate(executed) if isinstance(reply, redis.ResponseError)}
    refused |= {at: "the stream does not exist" for at, reply in enumerate(executed[:adds]) if reply is None}
    return Outcome(done=not refused, refused=refused, tail=replies[queued + 2 :])
