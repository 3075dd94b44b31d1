"""Several tasks of a shared group at once: those that nobody has tried yet read their new entries in one transaction.

A transaction for each of a thousand streams costs more than their entries. What is not as it should be, for one task or
for all, is left to the way of single tasks (`spark_streams.read.shared.task`), which the ledgers tell what was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import redis

from spark_streams.client.connection import Command, Connection, Link
from spark_streams.client.refusals import RefusedForNowError
from spark_streams.client.routing import UNREACHABLE
from spark_streams.codec.reply import Page
from spark_streams.read.query import loss
from spark_streams.read.shared import protocol
from spark_streams.read.shared.protocol import SharedTask
from spark_streams.server import xreadgroup
from spark_streams.server.api import StreamServer
from spark_streams.server.open import open_server
from spark_streams.server.xreadgroup import Consumer

_MOST_TASKS = 100
_MOST_ENTRIES = 10_000


def groups(tasks: Sequence[SharedTask]) -> Iterator[list[SharedTask]]:
    """The tasks in their order: some that may read together, or one."""
    found: list[SharedTask] = []
    entries = 0
    for task in tasks:
        is_plain = task.reads and not task.claims and not task.counts and task.max_deliveries is None
        if found and (not is_plain or len(found) == _MOST_TASKS or entries + task.reads > _MOST_ENTRIES):
            yield found
            found, entries = [], 0
        found.append(task)
        entries += task.reads if is_plain else _MOST_ENTRIES
    if found:
        yield found


def read_new(
    connection: Connection, tasks: Sequence[SharedTask]
) -> tuple[Page | None, list[tuple[str, int]], list[SharedTask]]:
    """A page of new entries, their streams with the number of each, and the tasks that are left."""
    left = list(tasks)
    if len(tasks) < 2 or connection.topology.is_cluster:
        return None, [], left
    link: Link | None = None
    try:
        link = connection.link(None)
        fresh = _watched(open_server(connection), link, tasks)
        if len(fresh) < 2:
            link.pipeline([("UNWATCH",)])
            return None, [], left
        reads: list[tuple[Consumer, int, Command]] = [
            (
                Consumer(task.stream, task.group, task.consumer, task.page_size),
                task.reads,
                ("HSET", _key(task), task.line, task.run),
            )
            for task in fresh
        ]
        found = xreadgroup.read_several(link, reads)
    except RefusedForNowError:
        return None, [], left
    except UNREACHABLE:
        connection.drop(link)
        return None, [], left
    if found is None:
        return None, [], left
    page, counts = found
    done = [(task, count) for task, count in zip(fresh, counts, strict=True) if count is not None]
    read = {task for task, _ in done}
    return page, [(task.stream, count) for task, count in done], [task for task in tasks if task not in read]


def _watched(server: StreamServer, link: Link, tasks: Sequence[SharedTask]) -> list[SharedTask]:
    """Watch the tasks' ledgers. Returns the tasks that nobody has tried yet, of streams that have lost nothing.

    Raises RefusedForNowError.
    """
    streams, group = [*dict.fromkeys(task.stream for task in tasks)], tasks[0].group
    looks = server.looks(streams, group, {task.stream for task in tasks if task.scripted})
    commands: list[Command] = [*looks, ("WATCH", *map(_key, tasks))]
    commands += [("HMGET", _key(task), protocol.DONE, task.line) for task in tasks]
    commands += [("XPENDING", task.stream, task.group, "-", "+", 1, task.consumer) for task in tasks]
    answers = link.pipeline(commands)
    watched, *replies = answers[len(looks) :]
    if isinstance(watched, redis.ResponseError):
        return []
    states = server.seen(streams, group, answers[: len(looks)])
    fresh: list[SharedTask] = []
    for task, fields, pending in zip(tasks, replies[: len(tasks)], replies[len(tasks) :], strict=True):
        if isinstance(fields, redis.ResponseError) or pending != []:
            continue
        done, line = fields
        state = states[task.stream]
        if line is None and int(done or 0) < task.batch and state and loss.find_group_loss(state, task.known) is None:
            fresh.append(task)
    return fresh


def _key(task: SharedTask) -> bytes:
    return protocol.ledger_key(task.stream, task.group, task.prefix)
