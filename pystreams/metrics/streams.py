"""Samples of streams, groups and consumers. Pure: what was found out about them in, samples out."""

from __future__ import annotations

from collections.abc import Iterator

from pystreams.metrics import table
from pystreams.metrics.table import Metric, Sample
from pystreams.streams.groups.describing import Group
from pystreams.streams.groups.status import Status
from pystreams.streams.listing import Stream
from streamwire.stream_id import StreamId

CONSUMERS = 1000
"""Consumers of a group that get samples of their own: those with most pending entries."""


def text(name: bytes) -> str:
    r"""A name as a label's value: as it is, or with escapes where it is not UTF-8. No two names have the same.

    So a name that looks as if it had an escape (`\xff` written out) has its backslashes doubled.
    """
    try:
        found = name.decode()
        if "\\x" not in found:
            return found
    except UnicodeDecodeError:
        pass
    return name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def of_stream(stream: Stream, database: str) -> Iterator[Sample]:
    """The samples of a stream. `database`: as in `db0`."""
    labels = (database, text(stream.name))
    yield Sample(table.STREAM_LENGTH, stream.length, labels)
    yield Sample(table.STREAM_GROUPS, stream.groups, labels)
    yield from _id(table.STREAM_FIRST, stream.first, labels)
    yield from _id(table.STREAM_LAST, stream.last, labels)
    yield from _id(table.STREAM_GENERATED, stream.generated, labels)
    yield from _id(table.STREAM_DELETED, stream.deleted, labels)
    if stream.added is not None:
        yield Sample(table.STREAM_ADDED, stream.added, labels)


def of_group(group: Group, status: Status, database: str, *, consumers: bool) -> Iterator[Sample]:
    """The samples of a group, and of its consumers if they are wanted. What is unknown gives none."""
    labels = (database, text(group.stream.name), text(group.name))
    yield Sample(table.GROUP_CONSUMERS, group.consumer_count, labels)
    yield Sample(table.GROUP_PENDING, group.pending, labels)
    if group.exact and group.lag is not None:
        yield Sample(table.GROUP_LAG, group.lag, labels)
    elif group.lag is not None:
        yield Sample(table.GROUP_LAG_ESTIMATE, group.lag, labels)
        for metric, bound in ((table.GROUP_LAG_LEAST, group.least), (table.GROUP_LAG_MOST, group.most)):
            if bound is not None:
                yield Sample(metric, bound, labels)
    yield from _id(table.GROUP_DELIVERED, group.position, labels)
    if group.read is not None:
        yield Sample(table.GROUP_READ, group.read, labels)
    if group.behind_ms is not None:
        yield Sample(table.GROUP_LAG_SECONDS, group.behind_ms / 1000, labels)
    if group.oldest_idle_ms is not None or not group.pending:
        yield Sample(table.GROUP_OLDEST_PENDING, (group.oldest_idle_ms or 0) / 1000, labels)
    yield Sample(table.GROUP_STATUS, table.STATUS_NUMBERS[status], labels)
    if not consumers:
        return
    shown = group.consumers or ()
    if len(shown) > CONSUMERS:
        shown = tuple(sorted(shown, key=lambda each: -each.pending)[:CONSUMERS])
    for each in shown:
        its = (*labels, text(each.name))
        yield Sample(table.CONSUMER_PENDING, each.pending, its)
        yield Sample(table.CONSUMER_IDLE, each.idle_ms / 1000, its)


def _id(metric: Metric, entry_id: StreamId | None, labels: tuple[str, ...]) -> Iterator[Sample]:
    if entry_id is not None:
        yield Sample(metric, entry_id.ms, labels)
