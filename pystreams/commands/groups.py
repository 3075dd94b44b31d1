"""`groups ls, describe, lag, seek, create, rm`: consumer groups, their lag, and changes of their positions."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import click

from pystreams import measures
from pystreams.commands.arguments import (
    NAME,
    group_argument,
    groups_of,
    limit_option,
    match_limit,
    matching,
    stream_argument,
)
from pystreams.commands.verbs import (
    PERIOD,
    Run,
    consumer_document,
    exit_with_found,
    group_document,
    verb,
    verb_group,
    write_rows,
)
from pystreams.errors import fail
from pystreams.files.rows import read_positions
from pystreams.measures import ID, WORD, Estimate, GroupRow, Measure, View
from pystreams.streams import entries, inventory, paged_calls, seeks
from pystreams.streams import group_states as of_groups
from pystreams.streams.group_states import Group, Status, judge
from pystreams.streams.sampling import Samples
from pystreams.streams.seeks import Move
from pystreams.values import names, numbers, times
from pystreams.values.names import is_glob
from streamclient.errors import PystreamsError
from streamclient.streams.lag import Budget
from streamwire.stream_id import ZERO

_READS = "+scan +xinfo +xpending +xrange +time"

_all_groups = click.option("--all-groups", is_flag=True, help="Select all groups of the streams.")


def _one_or_many(function: Any) -> Any:
    """Add --limit, --all-groups and the argument GROUP, which may be repeated, to a verb that changes groups."""
    for option in (
        match_limit,
        _all_groups,
        click.argument("groups", nargs=-1, type=NAME, metavar="[GROUP]..."),
    ):
        function = option(function)
    return function


def _chosen(run: Run, stream: str, groups: tuple[bytes, ...], limit: int, *, every: bool) -> list[Group]:
    if bool(groups) == every:
        raise click.UsageError("Give the groups, by name or glob, or --all-groups.")
    return groups_of(run, stream, groups, limit)


@verb(
    "seek",
    needs=f"{_READS} +xrevrange +xgroup|setid {seeks.NEEDS}",
    changes=True,
    examples=(
        "pystreams groups seek orders billing --to start",
        "pystreams groups seek orders billing --to 1h          # read the last hour again",
        "pystreams groups seek orders billing --to 2024-06-01T12:00 --dry-run",
        "pystreams groups seek orders billing --to +1          # skip one entry",
        "pystreams groups seek 'sensors:*' --all-groups --to end",
        "pystreams groups ls --limit 0 -o csv > positions.csv  # save all positions",
        "pystreams groups seek --from-file positions.csv       # restore them",
    ),
)
@click.argument("stream", required=False)
@_one_or_many
@click.option(
    "--to",
    metavar="POSITION",
    help="start, end, an ID, a time, 15m (ago), or +N or -N entries from the current position.",
)
@click.option(
    "--from-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File with streams, groups and positions: CSV or JSON lines, as 'groups ls' writes them.",
)
def seek(
    run: Run,
    stream: str | None,
    groups: tuple[bytes, ...],
    all_groups: bool,
    limit: int,
    to: str | None,
    from_file: Path | None,
) -> None:
    """Move groups: the next entry that a group reads is the first entry at or after the position.

    STREAM and GROUP are names or globs. A signed number counts from each group's position. In a file, the position is
    the last entry that the group has read. Pending entries stay pending. A position beyond the end of a stream is
    replaced by the end.
    """
    if (to is None) == (from_file is None):
        raise click.UsageError("Give one of --to and --from-file.")
    if (from_file is None) == (stream is None) or (from_file is not None and (groups or all_groups)):
        raise click.UsageError("Give STREAM and groups, or --from-file without them.")
    if from_file is not None:
        moves = _of_file(run, from_file)
    else:
        chosen = _chosen(run, str(stream), groups, limit, every=all_groups)
        moves = _moves(run, chosen, str(to))
    single = from_file is None and len(groups) == 1 and not any(map(is_glob, (str(stream), names.to_shell(groups[0]))))
    _carry_out(run, moves, single=single)


def _moves(run: Run, chosen: list[Group], to: str) -> list[Move]:
    """Return the moves of these groups to one position."""
    position = times.position(to, "--to", signs="+10, -10")
    groups = run.out.progress("positions", chosen, len(chosen))
    return [seeks.to_position(run.connection, each, position, run.now) for each in groups]


def _of_file(run: Run, file: Path) -> list[Move]:
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
    return [seeks.to_id(there[which], position) for which, position in wanted.items()]


class _After(NamedTuple):
    """A move, with the group's lag after it and whether that is exact."""

    move: Move
    lag: int | None
    exact: bool


_MOVES: View[_After] = (
    Measure("stream", lambda row: row.move.group.stream.name, WORD),
    Measure("group", lambda row: row.move.group.name, WORD),
    Measure("position", lambda row: row.move.group.position, ID, "from"),
    Measure(
        "lag", lambda row: row.move.group.lag, key="lag_before", estimate=Estimate(lambda row: row.move.group.exact)
    ),
    Measure("to", lambda row: row.move.position, ID, title="NEW POSITION"),
    Measure("lag_after", lambda row: row.lag, estimate=Estimate(lambda row: row.exact), title="NEW LAG"),
)


def _carry_out(run: Run, moves: list[Move], *, single: bool) -> None:
    """Show the moves, ask for confirmation, and move the groups."""
    if not moves:
        run.done("No group matches.", {"moved": 0, "groups": []}, "groups")
        return
    rows = [_After(move, *lag) for move, lag in zip(moves, seeks.lags_after(run.connection, moves), strict=True)]
    for move in moves:
        group = move.group
        for text in filter(None, (move.warning, seeks.consequence(move))):
            run.out.warn(text if single else f"{names.shown(group.name)} of {names.shown(group.stream.name)}: {text}")
    skipped = sum(seeks.skipped(row.move.group, row.lag) for row in rows)
    skips = f", which skips {numbers.things(skipped, 'undelivered entry')}" if skipped else ""
    pending = sum(move.group.pending for move in moves)
    if pending:
        run.out.note(f"Entries that stay pending: {pending:,}. See 'pystreams pending ls'.")
    documents = [measures.document(_MOVES, row) for row in rows]
    if single:
        stream, name, position, lag_then, target, lag_now = (each.text(rows[0]) for each in _MOVES)
        plan = f"move the group {name} of {stream} from {position} (lag {lag_then}) to {target} (lag {lag_now}){skips}"
        document, records = documents[0], ""
    else:
        run.preview(_MOVES, rows)
        streams = len({move.group.stream.name for move in moves})
        plan = f"move {numbers.things(len(moves), 'group')} of {numbers.things(streams, 'stream')}{skips}"
        document, records = {"groups": documents}, "groups"
    if not run.may(plan, document, records):
        return
    problems = seeks.carry_out(run.connection, moves)
    run.warn_of(problems, len(moves))
    if single:
        run.done(f"{name} of {stream}: {position} -> {target}, lag {lag_then} -> {lag_now}", document)
        return
    moved = len(moves) - len(problems)
    run.done(f"Moved {numbers.things(moved, 'group')}.", {"moved": moved, **document}, records, problems)


@verb(
    "create",
    needs="+xinfo +xgroup|create +xrevrange +time",
    changes=True,
    examples=("pystreams groups create orders billing --at start --yes",),
)
@stream_argument
@group_argument
@click.option(
    "--at", default="end", show_default=True, metavar="POSITION", help="start, end, an ID, a time, 15m (ago), -N."
)
def create(run: Run, stream: bytes, group: bytes, at: str) -> None:
    """Create a group. The first entry that it reads is the first entry at or after the position.

    A position beyond the stream's end is replaced by the end.
    """
    position = times.position(at, "--at")
    there = inventory.need(run.connection, stream)
    after = None if position.kind == "end" else entries.after_of(run.connection, there, position, run.now)
    if after is not None and after > there.last_id:
        run.out.warn(f"The position is beyond the stream's end. The group is created at {there.last_id}.")
        after = there.last_id
    where = "its end" if after is None else "its start" if after == ZERO else str(after)
    if run.may(f"create the group {names.shown(group)} of {names.shown(stream)} at {where}"):
        seeks.create(run.connection, stream, group, after)
        created = {"stream": names.as_json(stream), "group": names.as_json(group), "created": True}
        run.done(f"Created the group {names.shown(group)} of {names.shown(stream)} at {where}.", created)


_REMOVED: View[Group] = (
    Measure("stream", lambda row: row.stream.name, WORD),
    Measure("group", lambda row: row.name, WORD),
    Measure("pending", lambda row: row.pending),
    Measure("consumers", lambda row: row.consumer_count),
)


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
@click.argument("stream")
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
    if len(chosen) == 1:
        subject = f"the group {names.shown(chosen[0].name)} of {names.shown(chosen[0].stream.name)}"
    else:
        subject = numbers.things(len(chosen), "group")
        run.preview(_REMOVED, chosen)
    documents = [measures.document(_REMOVED, each) for each in chosen]
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
    run.warn_of(problems, len(chosen))
    run.done(
        f"Removed {numbers.things(removed, 'group')}.",
        {"removed": removed, "pending": dropped, "groups": documents},
        "groups",
        problems,
    )


_SORTS = {each.name: each for each in measures.GROUPS_LAGGING if each.form.right or each.form is measures.STATUS}


@verb("ls", needs="+scan +xinfo +time", examples=("pystreams groups ls", "pystreams groups ls orders --json"))
@click.argument("pattern", default="*")
@limit_option(1000, "groups")
def ls(run: Run, pattern: str, limit: int) -> None:
    """List the groups of the streams that match PATTERN, a name or a glob.

    LAG is a number of entries. '~' marks an estimate, which is shown if the server does not report the lag. 'groups
    lag' also shows the lag in time.
    """
    forbidden: set[bytes] | None = set() if is_glob(pattern) else None
    every = of_groups.groups(run.connection, matching(run, pattern), run.now, forbidden=forbidden)
    shown = list(itertools.islice(every, limit + 1)) if limit else list(every)
    run.warn_of_forbidden(forbidden or ())
    more = bool(limit) and len(shown) > limit
    shown = sorted(shown[:limit] if limit else shown, key=lambda group: (group.stream.name, group.name))
    rows = list(map(GroupRow.judged, shown))
    if run.out.structured:
        groups = [group_document(measures.GROUP_DOCUMENT, row) for row in rows]
        run.out.document({"groups": groups, "more": more}, "groups")
        return
    write_rows(run.out, measures.GROUPS_LISTED, rows, empty="No consumer groups.")
    if more:
        run.out.note(f"Only {limit} groups are shown (--limit).")


@verb(
    "describe",
    needs=_READS,
    examples=("pystreams groups describe orders billing", "pystreams groups describe orders billing --json"),
)
@stream_argument
@group_argument
@limit_option(100, "consumers")
def describe(run: Run, stream: bytes, group: bytes, limit: int) -> None:
    """Show one group and its consumers.

    Consumers with the most pending entries come first. IDLE: time since a consumer's last call. INACTIVE: time since
    the consumer last received an entry (from Redis 7.2 on).
    """
    shown = of_groups.need(run.connection, stream, group, run.now)
    status = judge(shown)
    every = sorted(shown.consumers or (), key=lambda each: (-each.pending, each.name))
    consumers = every[:limit] if limit else every
    if run.out.structured:
        described = group_document(measures.GROUP_DETAILS, GroupRow(shown, status))
        run.out.document({**described, "consumers": list(map(consumer_document, consumers))})
        return
    alone = "given back" if shown.oldest_idle_ms is None else f"idle for {times.shown(shown.oldest_idle_ms)}"
    oldest = f", the first is {shown.oldest}, {alone}" if shown.oldest else ""
    rows = [
        ("group", f"{names.shown(shown.name)} of {names.shown(shown.stream.name)}"),
        ("status", status.value),
        ("position", f"{shown.position}, the stream ends at {shown.stream.last_id}"),
        ("lag", f"{numbers.things(shown.lag, 'entry', exact=shown.exact)}, {times.shown(shown.behind_ms)}"),
        ("pending", f"{numbers.count(shown.pending)}{oldest}"),
    ]
    for title, text in rows:
        run.out.line(f"{title:<9} {text}")
    run.out.line()
    write_rows(run.out, measures.CONSUMER, consumers, empty="No consumers.")
    if len(every) > len(consumers):
        run.out.note(f"Only {limit} of {len(every):,} consumers are shown (--limit).")


@verb(
    "lag",
    needs=_READS,
    examples=(
        "pystreams groups lag",
        "pystreams groups lag --sort status --limit 10    # what needs attention",
        "pystreams groups lag 'sensors:*' --sort behind",
        "pystreams groups lag orders --group billing --watch",
        "pystreams groups lag --watch -o jsonl | pystreams produce lags -f - --format jsonl",
        "pystreams groups lag orders --fail-above 10000 || echo too slow",
    ),
)
@click.argument("pattern", default="*")
@click.option("--group", type=NAME, help="Only groups of this name.")
@click.option("--sort", type=click.Choice(sorted(_SORTS)), help="Order, largest or worst first. Examines all groups.")
@limit_option(1000, "groups")
@click.option("--watch", is_flag=True, help="Repeat until Ctrl-C.")
@click.option("--interval", type=PERIOD, default="5s", show_default=True, help="Time between two samples.")
@click.option("--samples", type=click.IntRange(1), help="Stop after N samples.")
@click.option(
    "--fail-above", type=int, metavar="N", help="Maximum lag. Ends with status 3 if a lag exceeds it or may exceed it."
)
@click.option(
    "--fail-behind",
    type=PERIOD,
    help="Maximum age of undelivered entries. Ends with status 3 if an entry is older, or would never be delivered.",
)
@click.option("--fail-status", is_flag=True, help="End with status 3 if a group has the status stop, stall or rewind.")
def lag(
    run: Run,
    pattern: str,
    group: bytes | None,
    sort: str | None,
    limit: int,
    watch: bool,
    interval: int,
    samples: int | None,
    fail_above: int | None,
    fail_behind: int | None,
    fail_status: bool,
) -> None:
    """Show the lag of groups: position, end, lag in entries and time, pending entries, idle time, status.

    BEHIND: age of the first undelivered entry. IDLE: time since the last call of a consumer. The last line has the
    totals of all matching groups, unless --limit without --sort ends the search. With --watch, DELIVERED is the number
    of entries delivered per second, and CATCH-UP the time until the lag is 0 if it goes on to shrink as it does.

    \b
    STATUS, as Burrow judges Kafka's groups:
      ok       no entry has been pending for more than a minute, and the group advances or keeps up
      warning  the lag grew at every sample (--watch), and no status below applies
      stop     entries have waited for more than a minute, and no consumer has called for a minute
      stall    consumers call, but for more than a minute entries stay pending or the position does not change
      rewind   the position moved back (--watch)
    """  # noqa: D301 - `\b` keeps the lines of the table
    taken = Samples(interval)
    for number in itertools.count(1):
        # With a --fail option, a stream that cannot be judged is an error.
        fails = fail_above is not None or fail_behind is not None or fail_status
        forbidden: set[bytes] | None = set() if is_glob(pattern) and not fails else None
        found, more = taken.groups(
            run.connection,
            matching(run, pattern),
            group,
            limit=limit if sort is None else 0,
            budget=Budget.deciding(fail_above),
            forbidden=forbidden,
        )
        run.warn_of_forbidden(forbidden or ())
        if group is not None and not found and number == 1:
            fail("NO_SUCH_GROUP", stream=pattern, group=names.shown(group), address=run.connection.address.shown)
        rows = [GroupRow(*each) for each in found]
        now = found[0][0].at if found else paged_calls.now_ms(run.connection)
        _show(run, rows, now, sort, limit, more=more, watch=watch)
        if _fails(run, rows, fail_above, fail_behind, status=fail_status):
            exit_with_found(run)
        if not watch or number == samples:
            return
        run.out.flush()
        time.sleep(interval / 1000)


def _fails(run: Run, rows: list[GroupRow], above: int | None, behind_ms: int | None, *, status: bool) -> bool:
    """Return whether a group fails a condition. Warn of groups whose lag may be `above`, but is an estimate."""
    far = [] if above is None else [row.group for row in rows if row.group.may_exceed(above)]
    for each in far:
        if not each.exact:
            run.out.warn(
                f"{names.shown(each.name)} of {names.shown(each.stream.name)} may be above {above:,}: "
                f"its lag is {of_groups.lag_range(each)}."
            )
    return bool(far) or any(
        (behind_ms is not None and (row.group.is_stranded or (row.group.behind_ms or 0) > behind_ms))
        or (status and row.status in (Status.STOP, Status.STALL, Status.REWIND))
        for row in rows
    )


def _show(run: Run, rows: list[GroupRow], now: int, sort: str | None, limit: int, *, more: bool, watch: bool) -> None:
    """Write the first `limit` rows and, unless `more` groups match, the totals of all rows."""
    totals = None if more else _totals(rows)
    if sort is not None:
        rows = sorted(rows, key=_SORTS[sort].sorted_by, reverse=True)
    if limit:
        rows, more = rows[:limit], more or len(rows) > limit
    if run.out.structured:
        at = {"at": times.iso(now)} if watch else {}
        view = measures.GROUP_WATCHED if watch else measures.GROUP_JUDGED
        groups = [group_document(view, row) for row in rows]
        run.out.document({**at, "groups": groups, "more": more, "totals": totals}, "groups")
        return
    if watch:
        run.out.line(f"{times.iso(now)}")
    columns = measures.GROUPS_WATCHED if watch else measures.GROUPS_LAGGING
    write_rows(run.out, columns, rows, empty="No consumer groups.")
    if totals is not None and totals["groups"] > 1:
        statuses = ", ".join(f"{count:,} {word}" for word, count in totals["status"].items() if count)
        lag = numbers.count(totals["lag"], exact=totals["lag_exact"])
        run.out.line(f"{totals['groups']:,} groups: {statuses}; lag {lag}, pending {totals['pending']:,}")
    if watch:
        run.out.line()
    if more:
        run.out.note(f"Only {len(rows)} groups are shown (--limit).")


def _totals(rows: list[GroupRow]) -> dict[str, Any]:
    statuses = Counter(row.status for row in rows)
    return {
        "groups": len(rows),
        "lag": sum(row.group.lag or 0 for row in rows),
        "lag_exact": all(row.group.exact for row in rows),
        "pending": sum(row.group.pending for row in rows),
        "status": {status.value: statuses[status] for status in Status},
    }


VERBS = (verb_group("groups", "Consumer groups and their lag.", ls, describe, lag, seek, create, remove),)
