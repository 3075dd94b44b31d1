"""How long to go on trying, and what is worth trying again.

Owns the pauses between attempts and the judgement of refusals and failures; opens nothing and sends nothing.
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

#: Refusals that say "not now" or "not here": the command was not executed, and may be later, or elsewhere.
_TRANSIENT = ("MOVED ", "ASK ", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY")

#: Commands that may be sent again when it is not known whether they were executed: the second time changes nothing.
_REPEATABLE = frozenset(
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
        "EXEC",  # of such commands alone, which is asked of each of them
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
        "HDEL",
        "DEL",
        "UNLINK",
        "PEXPIRE",
        "PS.NTH",
        "PS.SPLIT",
        "PS.ACKRANGE",
        "PS.DELIVER",
    )
)


class Budget:
    """A deadline with pauses that grow: for `milliseconds` from now."""

    def __init__(self, milliseconds: float) -> None:
        self._end = time.monotonic() + milliseconds / 1000
        self._pause = _FIRST_PAUSE

    def spent(self) -> bool:
        """Whether there is no time left; else a pause was made, and another attempt may follow."""
        left = self._end - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(left, self._pause * random.uniform(0.5, 1.0)))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return False


def is_transient(reply: Any) -> bool:
    """Whether the reply is a refusal that may be none a moment later, or at another node."""
    return isinstance(reply, redis.ResponseError) and str(reply).startswith(_TRANSIENT)


def repeatable(command: Command) -> bool:
    """Whether the command may be sent twice."""
    word = str(command[0]).upper()
    if word == "XREADGROUP":  # a consumer's history is the same when it is read again; new entries are not
        return ">" not in command
    return word in _REPEATABLE


def hopeless(cause: BaseException) -> bool:
    """Whether trying again cannot help: a wrong password, an unknown host, a certificate that is refused."""
    seen: BaseException | None = cause
    while seen is not None:
        if isinstance(seen, (redis.AuthenticationError, socket.gaierror, ssl.SSLCertVerificationError)):
            return True
        if isinstance(seen, ssl.SSLError) and ("certificate" in str(seen).lower() or "alert" in str(seen).lower()):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
