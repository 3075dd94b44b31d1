"""`checkpoint show, diff`: the offsets of a Spark query's checkpoint, compared with the streams and the groups'
positions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import click

from pystreams.commands.verbs import Run, exit_with_found, verb, verb_group
from pystreams.files import checkpoints
from pystreams.files.checkpoints import Checkpoint, Directory, Source
from pystreams.measures import ID, TEXT, WORD, Estimate, Measure, View
from pystreams.streams import group_states as of_groups
from pystreams.streams import inventory
from pystreams.streams.group_states import Group
from pystreams.streams.inventory import Stream
from pystreams.streams.sampling import BEHIND_CHECKPOINT
from pystreams.values import numbers
from streamclient.streams.lag import Backlog
from streamwire.stream_id import ZERO, StreamId

_READS = "+xinfo +time"


@dataclass(frozen=True)
class Comparison:
    """A stream in a checkpoint, compared with the server. `difference` is empty if checkpoint and server agree.

    `left`: number of entries after the last committed batch; None if the server does not have the stream.
    """

    name: str
    source: Source
    stream: Stream | None
    group: Group | None
    difference: str
    left: Backlog | None

    @property
    def planned(self) -> StreamId:
        return self.source.planned[self.name]

    @property
    def committed(self) -> StreamId | None:
        return self.source.committed.get(self.name)


def _compare(run: Run, checkpoint: Checkpoint) -> list[Comparison]:
    rows: list[Comparison] = []
    for source in checkpoint.sources:
        wanted = None if source.group is None else source.group.encode()
        streams = {name: inventory.find(run.connection, name.encode()) for name in source.planned}
        there = [stream for stream in streams.values() if stream is not None]
        members = {
            each.stream.name: each
            for each in of_groups.groups_of(run.connection, there, run.now)
            if each.name == wanted
        }
        for name, stream in sorted(streams.items()):
            member = members.get(name.encode())
            difference = _difference(name, source, stream, wanted, member)
            after = source.committed.get(name, ZERO)
            left = None if stream is None else inventory.behind(run.connection, [(stream, after)])[0]
            rows.append(Comparison(name, source, stream, member, difference, left))
    return rows


def _difference(name: str, source: Source, stream: Stream | None, wanted: bytes | None, group: Group | None) -> str:
    """Return the difference and its consequence for the query, or an empty text if they agree."""
    planned = source.planned[name]
    if stream is None:
        return "the stream is gone: STREAM_LOST" if planned > ZERO else ""
    if stream.last_id < planned:
        return "the stream ends before the checkpoint: STREAM_LOST"
    known = source.added.get(name)
    if known is not None and stream.removed is not None and not stream.has_gaps and stream.removed > known:
        return f"{numbers.things(stream.removed - known, 'entry')} removed unread: ENTRIES_LOST"
    if wanted is None:
        return ""
    if group is None:
        return (
            "the group is gone: the query creates it again"
            if source.consume == "range"
            else "the group is gone: GROUP_LOST"
        )
    if source.consume != "range":
        return ""
    if group.position < source.committed.get(name, ZERO):
        return BEHIND_CHECKPOINT
    if group.position > planned:
        return "the group is ahead of the checkpoint: all entries are read, but skipped entries are never pending"
    return ""


_COMPARED: View[Comparison] = (
    Measure("stream", lambda row: row.name.encode(), WORD),
    Measure("committed", lambda row: row.committed, ID),
    Measure("planned", lambda row: row.planned, ID),
    Measure("end", lambda row: None if row.stream is None else row.stream.last_id, ID),
    Measure(
        "left",
        lambda row: None if row.left is None else row.left.entries,
        estimate=Estimate(lambda row: row.left is not None and row.left.is_exact),
    ),
    Measure("group", lambda row: None if row.group is None else row.group.name, WORD),
    Measure("position", lambda row: None if row.group is None else row.group.position, ID),
    Measure("difference", lambda row: row.difference or None, replace(TEXT, styles={"-": "green"})),
)
_SOURCE: View[Comparison] = (
    Measure("source", lambda row: row.source.name, TEXT),
    Measure("consume", lambda row: row.source.consume, TEXT),
)


def _show(run: Run, checkpoint: Checkpoint, rows: list[Comparison], empty: str) -> None:
    finished = "no batch is committed" if checkpoint.finished is None else f"batch {checkpoint.finished} is committed"
    if not run.out.structured:
        run.out.note(f"Query {checkpoint.query or 'without an ID'}: batch {checkpoint.batch} was started, {finished}.")
    head = {"query": checkpoint.query, "batch": checkpoint.batch, "committed_batch": checkpoint.finished}
    run.show("streams", _COMPARED, rows, more=_SOURCE, empty=empty, **head)


@verb(
    "show",
    needs=_READS,
    examples=(
        "pystreams checkpoint show /data/checkpoints/orders",
        "pystreams checkpoint show s3://bucket/checkpoints/orders",
    ),
)
@click.argument("directory")
def show(run: Run, directory: str) -> None:
    """Show the offsets of a Spark query's checkpoint next to its streams and its group.

    COMMITTED: end of the last finished batch. PLANNED: end of the last batch. A restarted query repeats that batch
    unless it is committed. LEFT: number of entries after COMMITTED. DIRECTORY is a path, or the URL of a store that
    fsspec supports, such as s3://bucket/checkpoint.
    """
    checkpoint = checkpoints.read(Directory(directory))
    _show(run, checkpoint, _compare(run, checkpoint), "The checkpoint has no streams yet.")


@verb("diff", needs=_READS, examples=("pystreams checkpoint diff /data/checkpoints/orders || echo look closer",))
@click.argument("directory")
def diff(run: Run, directory: str) -> None:
    """Show the streams for which checkpoint and server differ, and the consequences for the query.

    Ends with status 3 if they differ.
    """
    checkpoint = checkpoints.read(Directory(directory))
    rows = [row for row in _compare(run, checkpoint) if row.difference]
    _show(run, checkpoint, rows, "Checkpoint and server agree.")
    if rows:
        exit_with_found(run)


VERBS = (verb_group("checkpoint", "Checkpoints of Spark queries.", show, diff),)
