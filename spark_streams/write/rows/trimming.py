"""Trimming: the XTRIMs that follow the rows of a chunk, and whether the server knows their options.

XTRIM is separate from the rows' XADDs, so that a row's command never depends on the time and the server trims only once
per chunk.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from spark_streams.config.write import WriteOptions
from spark_streams.errors import fail
from streamclient.connection import Command, Connection
from streamclient.errors import ResponseError


def trim_commands(stream: bytes, options: WriteOptions, clock: Callable[[], float] = time.time) -> list[Command]:
    """Return the XTRIMs according to the options. `clock` returns seconds since 1970."""
    wanted: list[tuple[str, str | int]] = []
    if options.maxlen is not None:
        wanted.append(("MAXLEN", options.maxlen))
    if options.minid is not None:
        wanted.append(("MINID", str(options.minid)))
    elif options.retention is not None:
        wanted.append(("MINID", max(0, int(clock() * 1000) - options.retention)))
    # Without LIMIT 0, each XTRIM removes a limited number of entries, and a large chunk may add more than that.
    how: tuple[str, ...] = ("~",) if options.approximate else ("=",)
    limit: tuple[str | int, ...] = ("LIMIT", 0) if options.approximate else ()
    return [("XTRIM", stream, strategy, *how, threshold, *limit, *_policy(options)) for strategy, threshold in wanted]


def _policy(options: WriteOptions) -> tuple[str, ...]:
    return () if options.ref_policy is None else (options.ref_policy.upper(),)


def check_policy(connection: Connection, stream: bytes, options: WriteOptions) -> None:
    """Raise NO_REF_POLICY if the server does not know the policy, since a transaction would otherwise fail midway."""
    if options.ref_policy is None:
        return
    (reply,) = connection.pipeline([("XTRIM", stream, "MINID", "=", "0-0", *_policy(options))])  # removes nothing
    if isinstance(reply, ResponseError) and "syntax" in str(reply).lower():
        fail("NO_REF_POLICY", address=connection.address, policy=options.ref_policy)
