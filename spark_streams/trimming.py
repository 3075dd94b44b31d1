"""What follows the rows of a chunk: the commands that keep a stream short.

Trimming stands beside the rows and not in them, so that a row's commands are the same at whatever time they are made,
and so that the server does it once per chunk.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from spark_streams.link import Command
from spark_streams.options_write import WriteOptions


def trims(stream: bytes, options: WriteOptions, clock: Callable[[], float] = time.time) -> list[Command]:
    """The commands, by the options, at this time."""
    wanted: list[tuple[str, str | int]] = []
    if options.maxlen is not None:
        wanted.append(("MAXLEN", options.maxlen))
    if options.minid is not None:
        wanted.append(("MINID", options.minid))
    elif options.retention is not None:
        wanted.append(("MINID", max(0, int(clock() * 1000) - options.retention)))
    # Without LIMIT 0 the server would remove a limited number each time, which a large chunk may exceed.
    how: tuple[str, ...] = ("~",) if options.approximate else ("=",)
    limit: tuple[str | int, ...] = ("LIMIT", 0) if options.approximate else ()
    policy = (options.ref_policy.upper(),) if options.ref_policy is not None else ()
    return [("XTRIM", stream, strategy, *how, threshold, *limit, *policy) for strategy, threshold in wanted]
