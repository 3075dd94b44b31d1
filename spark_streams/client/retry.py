"""Retries: what is worth trying again, and how long to go on.

Owns the pauses between attempts, and the classification of commands, refusals and failures. Opens and sends nothing.
"""

from __future__ import annotations

import random
import socket
import ssl
import time
from typing import Any

import redis

from spark_streams.client.link import Command

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.5

#: Error replies that mean "not now" or "not here": the command was not executed, and may succeed later or elsewhere.
_TRANSIENT = (
    "MOVED ",
    "ASK ",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "READONLY",
    "NOREPLICAS",
    "BUSY ",  # with somebody's script; BUSYGROUP and BUSYKEY are others
)

#: Idempotent commands: they may be sent again when it is not known whether they were executed.
_IDEMPOTENT = frozenset(
    (
        "PING",
        "ECHO",
        "TIME",
        "INFO",
        "ROLE",
        "TYPE",
        "EXISTS",
        "SCAN",
        "COMMAND",
        "CLUSTER",
        "CLIENT",
        "CONFIG",
        "MULTI",
        "EXEC",  # the commands in between are judged by themselves
        "XINFO",
        "XRANGE",
        "XREVRANGE",
        "XPENDING",
        "XLEN",
        "XREAD",
        "XACK",
        "XDEL",
        "XTRIM",
        "XGROUP",
        "HGET",
        "HMGET",
        "HGETALL",
        "HKEYS",
        "HSET",
        "HSETNX",
        "HDEL",
        "DEL",
        "UNLINK",
        "PEXPIRE",
        "EVAL",  # scripts that are sent this way only read, or do nothing the second time
        "PS.STATE",
        "PS.NTH",
        "PS.COLUMNS",
        "PS.SPLIT",
        "PS.ACKRANGE",
        "PS.DELIVER",
    )
)


class Budget:
    """The time that is left for retries: `milliseconds` from now, with pauses that grow from 5 ms to half a second."""

    def __init__(self, milliseconds: float) -> None:
        self._end = time.monotonic() + milliseconds / 1000
        self._pause = _FIRST_PAUSE

    def pause(self) -> bool:
        """Sleep before the next attempt. False, without sleeping, if the time is up."""
        left = self._end - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(left, self._pause * random.uniform(0.5, 1.0)))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True


def is_transient(reply: Any) -> bool:
    """Whether the reply is an error that may not occur a moment later, or at another node."""
    return isinstance(reply, redis.ResponseError) and str(reply).startswith(_TRANSIENT)


def is_idempotent(command: Command) -> bool:
    """Whether executing the command twice has the same effect as once."""
    word = str(command[0]).upper()
    if word == "XREADGROUP":  # reading a consumer's history is, reading new entries is not
        return ">" not in command
    return word in _IDEMPOTENT


def is_permanent(cause: BaseException) -> bool:
    """Whether a failure will not go away: a wrong password, an unknown host, a certificate that is refused."""
    seen: BaseException | None = cause
    while seen is not None:
        if isinstance(seen, (redis.AuthenticationError, socket.gaierror, ssl.SSLCertVerificationError)):
            return True
        if isinstance(seen, ssl.SSLError) and ("certificate" in str(seen).lower() or "alert" in str(seen).lower()):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
