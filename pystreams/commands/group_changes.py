"""`groups seek, create, rm`: moving, creating and removing consumer groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pystreams.commands.arguments import GROUP, PATTERN, group_argument, groups_of, match_limit, stream_argument
from pystreams.commands.verbs import Run, verb
from pystreams.errors import Status
from pystreams.files.rows import read_positions
from pystreams.output import Column
from pystreams.streams import entries, inventory, paged_calls
from pystreams.streams.groups import group_states as of_groups
from pystreams.streams.groups import seeks
from pystreams.streams.groups.group_states import Group
from pystreams.streams.groups.seeks import Move
from pystreams.values import names, numbers, times
from pystreams.values.names import is_glob
from streamclient.errors import PystreamsError
from streamwire.stream_id import ZERO

_READS = "+scan +xinfo +xpending +xrange +time"
_SHOWN = 20  # maximum rows of a preview

_all_groups = click.option("--all-groups", is_flag=True, help="Select all groups of the streams.")
_force_future = click.option(
    "--force-future",
    is_flag=True,
    help="Allow a position beyond the end. Entries with smaller IDs are then never delivered.",
)


def _one_or_many(function: Any) -> Any:
    """Add --limit, --all-groups and the argument GROUP, which may be repeated, to a verb that changes groups."""
    for option in (
        match_limit,
        _all_groups,
        click.argument("groups", nargs=-1, type=GROUP, metavar="[GROUP]..."),
    ):
        function = option(function)
    return function


def _chosen(run: Run, stream: str, groups: tuple[bytes, ...], limit: int, *, every: bool) -> list[Group]:
    if bool(groups) == every:
        raise click.UsageError("Give the groups, by name or glob, or --all-groups.")
    return groups_of(run, stream, groups, limit)


def _preview_groups(run: Run, groups: list[Group]) -> None:
    """Show the groups that are to be removed."""
    columns = [Column("STREAM"), Column("GROUP"), Column("PENDING", right=True), Column("CONSUMERS", right=True)]
    rows = [
        [
            names.shown(each.stream.name),
            names.shown(each.name),
            numbers.count(each.pending),
            numbers.count(each.consumer_count),
        ]
        for each in groups
    ]
    _preview(run, columns, rows)


def _preview(run: Run, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Show the first groups of a change, unless the output is for programs."""
    if not run.out.structured:
        run.out.table(columns, rows[:_SHOWN])
        if len(rows) > _SHOWN:
            run.out.line(f"... and {len(rows) - _SHOWN:,} more")


def _lag(lag: int | None, *, exact: bool) -> str:
    return numbers.count(lag, exact=exact)


@verb(
    "seek",
    needs=f"{_READS} +xrevrange +xgroup|setid {seeks.NEEDS}",
    changes=True,
    examples=(
        "pystreams groups seek orders billing --to start",
        "pystreams groups seek orders billing --to 1h          # read the last hour again",
        "pystreams groups seek orders billing --to 2024-06-01T12:00 --dry-run",
        "pystreams groups seek orders billing --to +1          # skip one entry",
        "pystreams groups seek orders billing --to-group audit # to the position of that group",
        "pystreams groups seek 'sensors:*' --all-groups --to end",
        "pystreams groups ls --limit 0 -o csv > positions.csv  # save all positions",
        "pystreams groups seek --from-file positions.csv       # restore them",
    ),
)
@click.argument("stream", type=PATTERN, required=False)
@_one_or_many
@click.option(
    "--to",
    metavar="POSITION",
    help="start, end, an ID, a time, 15m (ago), or +N or -N entries from the current position.",
)
@click.option("--to-group", type=GROUP, help="Move to the position of this group of the same stream.")
@click.option(
    "--from-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File with streams, groups and positions: CSV, JSON or JSON lines, as 'groups ls' writes them.",
)
@_force_future
def seek(
    run: Run,
    stream: str | None,
    groups: tuple[bytes, ...],
    all_groups: bool,
    limit: int,
    to: str | None,
    to_group: bytes | None,
    from_file: Path | None,
    force_future: bool,
) -> None:
    """Move groups: the next entry that a group reads is the first entry at or after the position.

    STREAM and GROUP are names or globs. A signed number counts from each group's position. In a file, the position is
    the last entry that the group has read. Pending entries stay pending. A position beyond the end of a stream is
    replaced by the end, unless --force-future is given.
    """
    if (to is not None) + (to_group is not None) + (from_file is not None) != 1:
        raise click.UsageError("Give one of --to, --to-group and --from-file.")
    if (from_file is None) == (stream is None) or (from_file is not None and (groups or all_groups)):
        raise click.UsageError("Give STREAM and groups, or --from-file without them.")
    if from_file is not None:
        moves = _of_file(run, from_file, beyond=force_future)
    else:
        chosen = _chosen(run, str(stream), groups, limit, every=all_groups)
        moves = _moves(run, chosen, to, to_group, beyond=force_future)
    single = from_file is None and len(groups) == 1 and not any(map(is_glob, (str(stream), names.to_shell(groups[0]))))
    _carry_out(run, moves, single=single)


def _moves(run: Run, chosen: list[Group], to: str | None, to_group: bytes | None, *, beyond: bool) -> list[Move]:
    """Return the moves of these groups to one position, or to the position of another group of their stream."""
    if to_group is not None:
        others = {
            stream: of_groups.need(run.connection, stream, to_group, run.now).position
            for stream in dict.fromkeys(each.stream.name for each in chosen)
        }
        return [seeks.to_id(each, others[each.stream.name], beyond=beyond) for each in chosen if each.name != to_group]
    position = times.position(str(to), "--to", signs="+10, -10")
    with run.out.progress("positions", len(chosen)) as advance:
        moves = []
        for each in chosen:
            moves.append(seeks.to_position(run.connection, each, position, run.now, beyond=beyond))
            advance(1)
    return moves


def _of_file(run: Run, file: Path, *, beyond: bool) -> list[Move]:
    """Return the moves to the positions in a file. Raises NO_SUCH_STREAM and NO_SUCH_GROUP."""
    wanted = read_positions(file)
    streams = dict.fromkeys(stream for stream, _ in wanted)
    there: dict[tuple[bytes, bytes], Group] = {}
    for page in paged_calls.pages(streams):
        paged_calls.ask_all(run.connection, [("XINFO", "STREAM", name) for name in page])
        states = of_groups.groups(run.connection, page, run.now)
        matches = (each for each in states if (each.stream.name, each.name) in wanted)
        there |= {(each.stream.name, each.name): each for each in of_groups.detailed(run.connection, matches)}
    for stream, group in wanted:
        if (stream, group) not in there:
            of_groups.need(run.connection, stream, group, run.now)
    return [seeks.to_id(there[which], position, beyond=beyond) for which, position in wanted.items()]


_MOVES = [
    Column("STREAM"),
    Column("GROUP"),
    Column("POSITION"),
    Column("LAG", right=True),
    Column("NEW POSITION"),
    Column("NEW LAG", right=True),
]


def _carry_out(run: Run, moves: list[Move], *, single: bool) -> None:
    """Show the moves, ask for confirmation, and move the groups."""
    if not moves:
        run.done("No group matches.", {"moved": 0, "groups": []}, "groups")
        return
    after = seeks.lags_after(run.connection, moves)
    documents, rows = [], []
    for move, (lag, exact) in zip(moves, after, strict=True):
        group = move.group
        for text in filter(None, (move.warning, seeks.consequence(move))):
            run.out.warn(text if single else f"{names.shown(group.name)} of {names.shown(group.stream.name)}: {text}")
        change = {"from": str(group.position), "to": str(move.position), "lag_before": group.lag}
        change |= {"lag_before_exact": group.exact, "lag_after": lag, "lag_after_exact": exact}
        named = {"stream": names.as_json(group.stream.name), "group": names.as_json(group.name)}
        documents.append(change if single else named | change)
        rows.append(
            [
                names.shown(group.stream.name),
                names.shown(group.name),
                str(group.position),
                _lag(group.lag, exact=group.exact),
                str(move.position),
                _lag(lag, exact=exact),
            ]
        )
    skipped = sum(seeks.skipped(move.group, lag) for move, (lag, _) in zip(moves, after, strict=True))
    skips = f", which skips {numbers.things(skipped, 'undelivered entry')}" if skipped else ""
    pending = sum(move.group.pending for move in moves)
    if pending:
        run.out.note(f"Entries that stay pending: {pending:,}. See 'pystreams pending ls'.")
    if single:
        stream, group_name, position, lag_then, target, lag_now = rows[0]
        plan = f"move the group {group_name} of {stream} from {position} (lag {lag_then}) to {target} (lag {lag_now})"
        plan += skips
        document, records = documents[0], ""
    else:
        _preview(run, _MOVES, rows)
        streams = len({move.group.stream.name for move in moves})
        plan = f"move {numbers.things(len(moves), 'group')} of {numbers.things(streams, 'stream')}{skips}"
        document, records = {"groups": documents}, "groups"
    if not run.may(plan, document, records):
        return
    problems = seeks.carry_out(run.connection, moves)
    if len(problems) == len(moves):
        raise problems[0]
    for problem in problems:
        run.out.warn(str(problem))
    if single:
        run.done(f"{group_name} of {stream}: {position} -> {target}, lag {lag_then} -> {lag_now}", document)
        return
    moved = len(moves) - len(problems)
    run.done(f"Moved {numbers.things(moved, 'group')}.", {"moved": moved, **document}, records)
    if problems:
        click.get_current_context().exit(Status.FAILED)


@verb(
    "create",
    needs="+xinfo +xgroup|create +xrevrange +time",
    changes=True,
    examples=("pystreams groups create orders billing --at start --yes", "pystreams groups create new g --make-stream"),
)
@stream_argument
@group_argument
@click.option(
    "--at", default="end", show_default=True, metavar="POSITION", help="start, end, an ID, a time, 15m (ago), -N."
)
@click.option("--make-stream", is_flag=True, help="Create the stream if it is missing.")
@_force_future
def create(run: Run, stream: bytes, group: bytes, at: str, make_stream: bool, force_future: bool) -> None:
    """Create a group. The first entry that it reads is the first entry at or after the position.

    A position beyond the stream's end is replaced by the end, unless --force-future is given.
    """
    position = times.position(at, "--at")
    after = None
    there = next(inventory.read_streams(run.connection, [stream], memory=False), None) if make_stream else None
    if not (make_stream and position.kind in ("start", "end", "id")):
        there = inventory.need(run.connection, stream)
    if position.kind == "start":
        after = ZERO
    elif position.kind == "id" and position.id is not None:
        after = position.id.before()
    elif position.kind != "end":
        assert there is not None
        after = entries.after_of(run.connection, there, position, run.now)
    end = ZERO if there is None else there.generated
    if after is not None and after > end and not force_future:
        run.out.warn(f"{after} is beyond the stream's end. The group is created at {end}.")
        after = end
    where = "its end" if after is None else "its start" if after == ZERO else str(after)
    if run.may(f"create the group {names.shown(group)} of {names.shown(stream)} at {where}"):
        seeks.create(run.connection, stream, group, after, make=make_stream)
        created = {"stream": names.as_json(stream), "group": names.as_json(group), "created": True}
        run.done(f"Created the group {names.shown(group)} of {names.shown(stream)} at {where}.", created)


@verb(
    "rm",
    needs=f"{_READS} +xgroup|destroy {seeks.NEEDS}",
    changes=True,
    examples=(
        "pystreams groups rm orders billing audit",
        "pystreams groups rm orders 'test-*' --dry-run",
        "pystreams groups rm 'sensors:*' --all-groups",
    ),
)
@click.argument("stream", type=PATTERN)
@_one_or_many
def remove(run: Run, stream: str, groups: tuple[bytes, ...], all_groups: bool, limit: int) -> None:
    """Remove groups with their positions and pending entries. The entries stay in the stream.

    STREAM and GROUP are names or globs.
    """
    chosen = _chosen(run, stream, groups, limit, every=all_groups)
    if not chosen:
        run.done("No group matches.", {"removed": 0, "pending": 0, "groups": []}, "groups")
        return
    for each in chosen:
        if seeks.owner(each) is not None:
            run.out.warn(
                f"A Spark query uses the group {names.shown(each.name)} of {names.shown(each.stream.name)}. The query "
                "would create the group again, or fail with GROUP_LOST."
            )
    pending = sum(each.pending for each in chosen)
    consumers = sum(each.consumer_count for each in chosen)
    documents = [
        {
            "stream": names.as_json(each.stream.name),
            "group": names.as_json(each.name),
            "pending": each.pending,
            "consumers": each.consumer_count,
        }
        for each in chosen
    ]
    if len(chosen) == 1:
        subject = f"the group {names.shown(chosen[0].name)} of {names.shown(chosen[0].stream.name)}"
    else:
        subject = numbers.things(len(chosen), "group")
        _preview_groups(run, chosen)
    plan = (
        f"remove {subject} with {numbers.things(pending, 'pending entry')} and {numbers.things(consumers, 'consumer')}"
    )
    if not run.may(plan, {"pending": pending, "groups": documents}, "groups"):
        return
    removed = dropped = 0
    problems: list[PystreamsError] = []
    for each in chosen:
        try:
            dropped += seeks.remove(run.connection, each)
            removed += 1
        except PystreamsError as failure:
            problems.append(failure)
    if not removed:
        raise problems[0]
    for problem in problems:
        run.out.warn(str(problem))
    run.done(
        f"Removed {numbers.things(removed, 'group')}.",
        {"removed": removed, "pending": dropped, "groups": documents},
        "groups",
    )
    if problems:
        click.get_current_context().exit(Status.FAILED)
