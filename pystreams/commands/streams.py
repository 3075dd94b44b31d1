"""`ls` and `info`: the list of streams, and one stream."""

from __future__ import annotations

import itertools
from dataclasses import replace

import click

from pystreams import measures
from pystreams.commands.arguments import limit_option, stream_argument
from pystreams.commands.verbs import Run, stream_document, verb, write_rows
from pystreams.measures import GroupRow, StreamRow
from pystreams.streams import group_states as of_groups
from pystreams.streams import inventory
from pystreams.streams.inventory import Stream
from pystreams.values import names, times
from pystreams.values.names import is_glob
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
    """Return a row for the stream, with its average rate."""
    return StreamRow(replace(stream, rate=stream.average_rate(now)), now)


@verb(
    "ls",
    needs=_READS,
    examples=("pystreams ls", "pystreams ls 'sensors:*' --sort bytes --limit 10", "pystreams ls --json"),
)
@click.argument("pattern", default="*")
@click.option(
    "--sort",
    type=click.Choice(sorted(_SORTS)),
    help="Measure to sort by, largest first; 'newest' puts the latest entry first. "
    "Examines all streams, regardless of the limit.",
)
@limit_option(1000, "streams")
def ls(run: Run, pattern: str, sort: str | None, limit: int) -> None:
    """List streams that match the glob PATTERN: length, size, rate, age, groups.

    RATE is the average since the first entry. OLDEST and NEWEST are the ages of the first and the last entry. REMOVED
    counts entries that were trimmed or deleted.
    """
    found, more, forbidden = _chosen(run, pattern, sort, limit)
    run.warn_of_forbidden(forbidden)
    rows = [_row(stream, run.now) for stream in found]
    if run.out.structured:
        run.out.document(
            {"streams": [stream_document(measures.STREAM_DOCUMENT, row) for row in rows], "more": more},
            "streams",
        )
        return
    kind = "readable stream" if forbidden else "stream"
    write_rows(run.out, measures.STREAMS_LISTED, rows, empty=f"No {kind} matches {pattern}.")
    if more:
        run.out.note(f"Only {limit} streams are shown (--limit).")


def _chosen(run: Run, pattern: str, sort: str | None, limit: int) -> tuple[list[Stream], bool, set[bytes]]:
    """Return the streams to show, whether more streams match, and the streams that the user may not read."""
    matching = sorted(inventory.scan(run.connection, names.from_shell(pattern)))
    forbidden: set[bytes] = set()
    of_glob = forbidden if is_glob(pattern) else None
    streams = run.out.progress("streams", inventory.read_streams(run.connection, matching, forbidden=of_glob))
    if sort is None:
        found = list(itertools.islice(streams, limit + 1 if limit else None))
    else:
        found = sorted(streams, key=lambda stream: _SORTS[sort].sorted_by(_row(stream, run.now)), reverse=True)
    more = 0 < limit < len(found)
    return found[:limit] if more else found, more, forbidden


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
        run.out.document({**stream_document(measures.STREAM_DETAILS, row), "groups": of_stream})
        return
    texts = {each.name: each.text(row) for each in measures.STREAM_LINES}
    texts["removed"] += _gap(found)
    texts["first"], texts["last"] = _when(found.first_id, run.now), _when(found.last_entry, run.now)
    texts["groups"] = ", ".join(map(_group, members)) or "none"
    for name, text in texts.items():
        run.out.line(f"{_WORDS.get(name, name):<13} {text}")


def _gap(stream: Stream) -> str:
    return f", with gaps between the remaining entries (last gap at {stream.max_deleted_id})" if stream.has_gaps else ""


def _when(at: StreamId | None, now: int) -> str:
    if at is None:
        return "-"
    since = measures.age(at, now)
    return f"{at} ({times.iso(at.ms)}, {times.shown(since)} ago)" if since is not None else str(at)


def _group(row: GroupRow) -> str:
    values = ", ".join(f"{each.name} {each.text(row)}" for each in measures.GROUP_OF_STREAM)
    return f"{names.shown(row.group.name)} ({values})"


VERBS = (ls, info)
