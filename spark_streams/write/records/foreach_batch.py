"""The identity of a write from foreachBatch: the query, the batch, and its number among the batch's writes.

Spark tells a task the query, the batch, the run (new whenever a batch is attempted) and the execution (new for each
action). The executions of a run are counted on the server in the order in which they begin. A repeated batch counts
anew, so its first write has the number of the first write before.
"""

from __future__ import annotations

import re
from typing import Any

from spark_streams.config.write import WriteOptions
from spark_streams.errors import fail
from spark_streams.write.records.fence import PREFIX, shown
from spark_streams.write.records.ledger import kept_ms
from streamclient.compare_and_set import change
from streamclient.connection import Command, Connection

_RUN_TAG = re.compile(r"spark-session-[0-9a-f-]+-execution-root-id-[0-9]+")


def run_in(tags: str) -> str | None:
    """The run among the tags of a job: session and execution of the whole batch. Unlike a job group, users set no such.

    A streaming query has a new session whenever it starts.
    """
    return next((tag for tag in tags.split(",") if _RUN_TAG.fullmatch(tag)), None)


def number_of_write(
    connection: Connection, query: str, batch: int, run: str, execution: str, options: WriteOptions
) -> int:
    """The number of this execution among those that write in this batch and run, from 0.

    Raises ATTEMPT_REPLACED if a later batch has begun, and WRITE_CONTENDED.
    """
    key = b"%b{%b}:writes" % (PREFIX, query.encode())
    mine = f"{batch}:{run}"
    keep_ms = kept_ms(options, lasting=True)
    number = 0

    def decide(replies: list[Any]) -> list[Command]:
        nonlocal number
        (found,) = replies
        runs = {name.decode(): value.decode() for name, value in zip(found[::2], found[1::2], strict=True)}
        known = [each for each in runs.get(mine, "").split(",") if each]
        if execution in known:
            number = known.index(execution)
            return []
        if any(int(name.partition(":")[0]) > batch for name in runs):
            fail("ATTEMPT_REPLACED", stream=shown(key), batch=batch)
        number = len(known)
        old = [name for name in runs if int(name.partition(":")[0]) < batch]
        commands: list[Command] = [("HSET", key, mine, ",".join([*known, execution]))]
        if old:
            commands.append(("HDEL", key, *old))
        if keep_ms:
            commands.append(("PEXPIRE", key, keep_ms))
        return commands

    change(connection, [key], [("HGETALL", key)], decide)
    return number
