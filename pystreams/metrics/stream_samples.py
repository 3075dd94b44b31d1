"""Conversion of the measures of streams, groups, consumers and Spark queries to samples, without I/O."""

from __future__ import annotations

from collections.abc import Iterator

from pystreams import measures
from pystreams.measures import GroupRow, QueryRow, Row, StreamRow, View
from pystreams.metrics.table import METRICS, Sample

#: Maximum number of a group's consumers that have their own samples: those with the most pending entries.
CONSUMERS = 1000


def text(name: bytes) -> str:
    r"""Return a name as a label's value: unchanged, or with escapes if it is not UTF-8.

    Different names stay different, so backslashes are doubled in a name that contains the text of an escape, such as a
    backslash followed by `xff`.
    """
    try:
        found = name.decode()
        if "\\x" not in found:
            return found
    except UnicodeDecodeError:
        pass
    return name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def of_stream(row: StreamRow, database: str) -> Iterator[Sample]:
    """Return the samples of a stream. `database`: value of the label, such as `db0`."""
    return _samples(measures.STREAM, row, (database, text(row.stream.name)))


def of_group(row: GroupRow, database: str, *, consumers: bool) -> Iterator[Sample]:
    """Yield the samples of a group, and of its consumers if requested. Unknown values are skipped."""
    group = row.group
    labels = (database, text(group.stream.name), text(group.name))
    yield from _samples(measures.GROUP, row, labels)
    if not consumers:
        return
    shown = group.consumers or ()
    if len(shown) > CONSUMERS:
        shown = tuple(sorted(shown, key=lambda each: -each.pending)[:CONSUMERS])
    for each in shown:
        yield from _samples(measures.CONSUMER, each, (*labels, text(each.name)))


def of_query(row: QueryRow) -> Iterator[Sample]:
    """Return the samples of a Spark query's last batch, from the report of `StreamMonitor`."""
    return _samples(measures.QUERY, row, (row.report.query, row.report.id))


def _samples(table: View[Row], row: Row, labels: tuple[str, ...]) -> Iterator[Sample]:
    return (Sample(METRICS[name], value, labels) for each in table for name, value in each.samples(row))
