"""Joint reads of several tasks of a shared group: first attempts read and claim in one transaction.

A transaction for each of a thousand streams costs more than reading their entries. Any irregularity, for one task or
for all, is left to the code for single tasks (`spark_streams.read.shared.task`), which finds in the ledgers which
entries were read. Clusters always use that code, because one transaction cannot have keys of several slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spark_streams.read.query import loss
from spark_streams.read.shared import protocol
from spark_streams.read.shared.protocol import SharedTask
from streamclient.codec.reply import Page
from streamclient.connection import Command, Connection, Link
from streamclient.refusals import RefusedForNowError
from streamclient.routing import UNREACHABLE
from streamclient.streams.entries import xreadgroup
from streamclient.streams.entries.xreadgroup import Claim, Consumer, Read
from streamclient.streams.groups import may_be_removed
from streamclient.streams.model import StreamState
from streamclient.streams.pages import PageSize
from streamclient.streams.stream_server import StreamServer, open_server
from streamclient.wire_errors import ResponseError

_MOST_TASKS = 100  # maximum number of tasks that read together
#: Maximum number of entries that several tasks read together.
MOST_ENTRIES = 10_000

#: An int32 array: number of deliveries of each entry of a page; None if not requested.
Counts = Any

#: A page, its streams with their numbers of entries, and its task with counts. The last list is empty if the page has
#: the entries of several tasks.
Found = tuple[Page, list[tuple[str, int]], list[tuple[SharedTask, Counts]]]


def groups(tasks: Sequence[SharedTask], size: PageSize) -> Iterator[list[SharedTask]]:
    """Yield the tasks in order, in groups that may read together, or as single tasks.

    All entries that a group reads are in memory at once. `size` adapts while the tasks read: if their entries have many
    megabytes, a group has at most two tasks.
    """
    found: list[SharedTask] = []
    entries = 0
    for task in tasks:
        wanted = task.reads + task.claims
        most = MOST_ENTRIES if len(found) < 2 else size.now
        if found and (len(found) == _MOST_TASKS or entries + wanted > most or _is_plain(task) != _is_plain(found[0])):
            yield found
            found, entries = [], 0
        found.append(task)
        entries += wanted
    if found:
        yield found


def _is_plain(task: SharedTask) -> bool:
    """Return whether the task only needs new entries. Entries of several such tasks form one page."""
    return bool(task.reads) and not task.claims and not task.counts and task.max_deliveries is None


def read_new(
    connection: Connection, tasks: Sequence[SharedTask], size: PageSize
) -> tuple[list[Found], list[SharedTask]]:
    """Read the tasks of one list from `groups` together. Returns the pages, and the tasks that have not read."""
    left = list(tasks)
    if len(tasks) < 2 or connection.topology.is_cluster:
        return [], left
    link: Link | None = None
    try:
        link = connection.link(None)
        fresh, states = _watched(open_server(connection), link, tasks)
        claims = _claims(link, fresh)
        # A task that would claim entries which may no longer exist reads alone, and reports them.
        fresh = [task for task in fresh if not _may_lose(states[task.stream], claims.get(task, ()))]
        if len(fresh) < 2:
            link.pipeline([("UNWATCH",)])
            return [], left
        reads = [
            Read(_consumer(task), task.reads, ("HSET", _key(task), task.line, task.run), claims.get(task, ()))
            for task in fresh
        ]
        if not _is_plain(tasks[0]):
            return _apart(connection, tasks, fresh, xreadgroup.read_each(link, reads, size))
        found = xreadgroup.read_several(link, reads, size)
    except RefusedForNowError:
        return [], left
    except UNREACHABLE:
        connection.drop(link)
        return [], left
    if found is None:
        return [], left
    page, counts = found
    done = [(task, count) for task, count in zip(fresh, counts, strict=True) if count is not None]
    read = {task for task, _ in done}
    left = [task for task in tasks if task not in read]
    return ([] if page is None else [(page, [(task.stream, count) for task, count in done], [])]), left


def _apart(
    connection: Connection,
    tasks: Sequence[SharedTask],
    fresh: Sequence[SharedTask],
    pages: Sequence[list[Page] | None] | None,
) -> tuple[list[Found], list[SharedTask]]:
    """Return the pages of each task, with the numbers of deliveries if requested; and the remaining tasks."""
    if pages is None:
        return [], list(tasks)
    done = {task: its for task, its in zip(fresh, pages, strict=True) if its is not None}
    found = [(task, page) for task, its in done.items() for page in its]
    counted = [(task, page) for task, page in found if task.counts or task.max_deliveries is not None]
    answers = xreadgroup.deliveries_of(connection, [(_consumer(task), page.id_texts()) for task, page in counted])
    counts = {id(page): answer for (_, page), answer in zip(counted, answers, strict=True)}
    made = [(page, [(task.stream, page.count)], [(task, counts.get(id(page)))]) for task, page in found]
    return made, [task for task in tasks if task not in done]


def _claims(link: Link, tasks: Sequence[SharedTask]) -> dict[SharedTask, list[Claim]]:
    """Return the pending entries of other consumers that each task must claim. Raises RefusedForNowError."""
    claiming = [task for task in tasks if task.claims]
    listed = link.pipeline([("XINFO", "CONSUMERS", task.stream, task.group) for task in claiming])
    requested: list[tuple[SharedTask, int]] = []
    commands: list[Command] = []
    for task, consumers in zip(claiming, listed, strict=True):
        for name, idle in protocol.claimable(task, _answered(consumers)):
            requested.append((task, idle))
            commands.append(protocol.pending_of(task, name, idle, task.claims))
    found: dict[SharedTask, list[Claim]] = {}
    for (task, idle), rows in zip(requested, link.pipeline(commands), strict=True):
        claims = found.setdefault(task, [])
        left = task.claims - sum(len(claim.ids) for claim in claims)
        ids = [row[0] for row in _answered(rows)[:left]]
        if ids:
            claims.append(Claim(idle, ids))
    return found


def _answered(reply: Any) -> Any:
    """Return the reply. Raises RefusedForNowError for a refusal, which the code for single tasks handles."""
    if isinstance(reply, ResponseError):
        raise RefusedForNowError(str(reply))
    return reply


def _may_lose(state: StreamState | None, claims: Sequence[Claim]) -> bool:
    return state is not None and any(may_be_removed(state, each) for claim in claims for each in claim.ids)


def _watched(
    server: StreamServer, link: Link, tasks: Sequence[SharedTask]
) -> tuple[list[SharedTask], dict[str, StreamState | None]]:
    """Watch the tasks' ledgers.

    Returns the tasks that have no earlier attempt and whose streams have no losses, and the states of the streams.
    Raises RefusedForNowError.
    """
    streams, group = [*dict.fromkeys(task.stream for task in tasks)], tasks[0].group
    state_reads = server.states.requests(streams, group, {task.stream for task in tasks if task.scripted})
    commands: list[Command] = [*state_reads, ("WATCH", *map(_key, tasks))]
    commands += [("HMGET", _key(task), protocol.DONE, task.line) for task in tasks]
    commands += [("XPENDING", task.stream, task.group, "-", "+", 1, task.consumer) for task in tasks]
    answers = link.pipeline(commands)
    watched, *replies = answers[len(state_reads) :]
    if isinstance(watched, ResponseError):
        return [], {}
    states = server.states.parsed(streams, group, answers[: len(state_reads)])
    fresh: list[SharedTask] = []
    for task, fields, pending in zip(tasks, replies[: len(tasks)], replies[len(tasks) :], strict=True):
        if isinstance(fields, ResponseError) or pending != []:
            continue
        done, line = fields
        state = states[task.stream]
        if line is None and int(done or 0) < task.batch and state and loss.find_group_loss(state, task.known) is None:
            fresh.append(task)
    return fresh, states


def _consumer(task: SharedTask) -> Consumer:
    return Consumer(task.stream, task.group, task.consumer, task.page_size)


def _key(task: SharedTask) -> bytes:
    return protocol.ledger_key(task.stream, task.group, task.prefix)
