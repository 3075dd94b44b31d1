"""`ls`, `info` and `report`: the list of streams, one stream, and what needs attention."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import replace
from typing import Any

import click

from pystreams import measures
from pystreams.commands import rows as rows_of
from pystreams.commands.verbs import PATTERN, Run, limit_option, stream_argument, verb
from pystreams.measures import GroupRow, StreamRow
from pystreams.output.console import Column
from pystreams.streams import inventory, paged_calls
from pystreams.streams.groups import group_states as of_groups
from pystreams.streams.groups.status import Status
from pystreams.streams.inventory import Stream
from pystreams.values import names, numbers, times
from pystreams.values.globs import is_glob
from streamclient.streams.lag import Budget
from streamwire.stream_id import StreamId

_READS = "+scan +xinfo +memory|usage +time"
_SORTS = {each.name: each for each in measures.STREAMS_LISTED if each.form.right}
#: Labels of measures in `info` that differ from the names of the measures.
_WORDS = {
    "name": "stream",
    "length": "entries",
    "added": "ever added",
    "generated": "last ID made",
    "bytes": "size",
    "average_rate": "average rate",
}


def _row(stream: Stream, now: int) -> StreamRow:
    """Return a row for the stream, with the measured rate or else the average rate."""
    return StreamRow(stream if stream.rate is not None else replace(stream, rate=stream.average_rate(now)), now)


@verb(
    "ls",
    needs=_READS,
    examples=("pystreams ls", "pystreams ls 'sensors:*' --sort bytes --limit 10", "pystreams ls --over 5s --json"),
)
@click.argument("pattern", default="*", type=PATTERN)
@click.option(
    "--sort",
    type=click.Choice(sorted(_SORTS)),
    help="Measure to sort by, largest first; 'newest' puts the latest entry first. "
    "Examines all streams, regardless of the limit.",
)
@limit_option(1000, "streams")
@click.option(
    "--over",
    metavar="DURATION",
    help="Period over which to measure the rate.  [default: since the first entry]",
)
def ls(run: Run, pattern: str, sort: str | None, limit: int, over: str | None) -> None:
    """List streams that match the glob PATTERN: length, size, rate, age, groups.

    OLDEST and NEWEST are the ages of the first and the last entry. REMOVED counts entries that were trimmed or deleted.
    """
    found, more, forbidden = _chosen(run, pattern, sort, limit)
    run.warn_of_forbidden(forbidden)
    if over is not None and found:
        found = inventory.measured(run.connection, found, times.duration(over, "--over") / 1000)
        if sort == "rate":
            found.sort(key=lambda stream: stream.rate or 0, reverse=True)
    rows = [_row(stream, run.now) for stream in found]
    if run.out.structured:
        run.out.document(
            {"streams": [rows_of.stream_document(measures.STREAM_DOCUMENT, row) for row in rows], "more": more},
            "streams",
        )
        return
    kind = "readable stream" if forbidden else "stream"
    rows_of.table(run.out, measures.STREAMS_LISTED, rows, empty=f"No {kind} matches {pattern}.")
    if more:
        run.out.note(f"Only {limit} streams are shown (--limit).")


def _chosen(run: Run, pattern: str, sort: str | None, limit: int) -> tuple[list[Stream], bool, set[bytes]]:
    """Return the streams to show, whether more streams match, and the streams that the user may not read."""
    matching = inventory.scan(run.connection, names.from_shell(pattern))
    forbidden: set[bytes] = set()
    of_glob = forbidden if is_glob(pattern) else None
    with run.out.progress("streams") as advance:
        if sort is None:
            found = []
            for stream in inventory.read_streams(run.connection, matching, forbidden=of_glob):
                advance(1)
                found.append(stream)
                if len(found) > limit > 0:
                    break
            more = len(found) > limit > 0
            return sorted(found[:limit] if more else found, key=lambda each: each.name), more, forbidden
        count = 0

        def counted() -> Any:
            nonlocal count
            every = inventory.read_streams(run.connection, matching, memory=sort == "bytes", forbidden=of_glob)
            for stream in every:
                count += 1
                advance(1)
                yield stream

        def key(stream: Stream) -> Any:
            return _SORTS[sort].sorted_by(_row(stream, run.now))

        found = heapq.nlargest(limit, counted(), key) if limit else sorted(counted(), key=key)[::-1]
        if sort != "bytes":
            sized = {
                stream.name: stream for stream in inventory.read_streams(run.connection, [each.name for each in found])
            }
            found = [sized[stream.name] for stream in found if stream.name in sized]
        return found, count > len(found), forbidden


@verb("info", needs=_READS, examples=("pystreams info orders", "pystreams info orders --json"))
@stream_argument
def info(run: Run, stream: bytes) -> None:
    """Show one stream: entries, IDs, removed entries, size, rate, groups.

    The server counts removed entries, but records only the largest deleted ID. If that ID is after the first entry, the
    stream has a gap.
    """
    found = inventory.need(run.connection, stream)
    members = [GroupRow.judged(each) for each in of_groups.groups(run.connection, [stream], run.now)]
    row = _row(found, run.now)
    if run.out.structured:
        of_stream = [
            {"group": names.as_json(each.group.name), **measures.document(measures.GROUP_OF_STREAM, each)}
            for each in members
        ]
        run.out.document({**rows_of.stream_document(measures.STREAM_DETAILS, row), "groups": of_stream})
        return
    texts = {each.name: each.text(row) for each in measures.STREAM_LINES}
    texts["removed"] += _gap(found)
    texts["first"], texts["last"] = _when(found.first, run.now), _when(found.last, run.now)
    texts["groups"] = ", ".join(map(_group, members)) or "none"
    for name, text in texts.items():
        run.out.line(f"{_WORDS.get(name, name):<13} {text}")


def _gap(stream: Stream) -> str:
    return f", with gaps between the remaining entries (last gap at {stream.deleted})" if stream.has_gaps else ""


def _when(at: StreamId | None, now: int) -> str:
    if at is None:
        return "-"
    since = measures.age(at, now)
    return f"{at} ({times.iso(at.ms)}, {times.shown(since)} ago)" if since is not None else str(at)


def _group(row: GroupRow) -> str:
    values = ", ".join(f"{each.name} {each.text(row)}" for each in measures.GROUP_OF_STREAM)
    return f"{names.shown(row.group.name)} ({values})"


@verb("report", needs=f"{_READS} +xpending +xrange", examples=("pystreams report", "pystreams report --top 20 --json"))
@click.option(
    "--top",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="Maximum number of groups, and of streams, to show.",
)
def report(run: Run, top: int) -> None:
    """Show totals of all streams and groups, the groups with unread or pending entries, and the largest streams.

    Groups whose status is not ok come first. All streams and groups are examined, in pages and without a limit.
    """
    totals = {"streams": 0, "entries": 0, "groups": 0, "lag": 0, "pending": 0}
    statuses = dict.fromkeys((status.value for status in Status), 0)
    worst: list[tuple[int, int, GroupRow]] = []
    largest: list[tuple[int, bytes]] = []
    order = itertools.count()
    budget, exact = Budget(), True
    forbidden: set[bytes] = set()
    with run.out.progress("streams") as advance:
        for page in paged_calls.pages(inventory.scan(run.connection)):
            streams = list(inventory.read_streams(run.connection, page, memory=False, forbidden=forbidden))
            totals["streams"] += len(streams)
            totals["entries"] += sum(stream.length for stream in streams)
            largest = heapq.nlargest(top, [*largest, *((stream.length, stream.name) for stream in streams)])
            for group in of_groups.groups_of(run.connection, streams, run.now, budget=budget):
                row = GroupRow.judged(group)
                statuses[row.status] += 1
                totals["groups"] += 1
                totals["lag"] += group.lag or 0
                exact = exact and group.exact
                totals["pending"] += group.pending
                if group.lag or group.pending:
                    weight = (row.status != Status.OK) * 2**62 + (group.lag or 0) + group.pending
                    worst = heapq.nlargest(top, [*worst, (weight, -next(order), row)], key=lambda each: each[:2])
            advance(len(page))
    run.warn_of_forbidden(forbidden)
    slow = [row for _, _, row in worst]
    if run.out.structured:
        run.out.document(
            {
                **totals,
                "lag_exact": exact,
                "status": statuses,
                "behind": [rows_of.group_document(measures.GROUPS_REPORTED, row) for row in slow],
                "largest": [{"stream": names.as_json(name), "length": length} for length, name in largest],
            }
        )
        return
    run.out.line(
        ", ".join(f"{numbers.count(value, exact=exact or name != 'lag')} {name}" for name, value in totals.items())
    )
    run.out.line("groups: " + ", ".join(f"{count:,} {word}" for word, count in statuses.items()))
    if slow:
        run.out.line()
        rows_of.table(run.out, measures.GROUPS_REPORTED, slow)
    if largest:
        run.out.line()
        cells = [[names.shown(name), numbers.count(length)] for length, name in largest]
        run.out.table([Column("LARGEST STREAMS"), Column("LENGTH", right=True)], cells)


VERBS = (ls, info, report)
