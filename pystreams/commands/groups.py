"""`groups ls, describe, lag`: consumer groups and their lag. `changes` has the other verbs about groups."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from typing import Any

import click

from pystreams import measures
from pystreams.commands.arguments import NAME, PATTERN, group_argument, limit_option, matching, stream_argument
from pystreams.commands.group_changes import create, remove, seek
from pystreams.commands.verbs import (
    Run,
    consumer_document,
    exit_with_found,
    group_document,
    verb,
    verb_group,
    write_rows,
)
from pystreams.errors import fail
from pystreams.measures import GroupRow
from pystreams.streams import paged_calls
from pystreams.streams.groups import group_states as of_groups
from pystreams.streams.groups.group_states import Status, judge
from pystreams.streams.groups.sampling import Samples
from pystreams.values import names, numbers, times
from pystreams.values.names import is_glob
from streamclient.streams.lag import Budget

_READS = "+scan +xinfo +xpending +xrange +time"
_SORTS = {each.name: each for each in measures.GROUPS_LAGGING if each.form.right or each.form is measures.STATUS}


@verb("ls", needs="+scan +xinfo +time", examples=("pystreams groups ls", "pystreams groups ls orders --json"))
@click.argument("pattern", default="*", type=PATTERN)
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
    status = judge([shown.sample])
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
        ("position", f"{shown.position}, the stream ends at {shown.stream.generated}"),
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
        "pystreams groups lag orders --fail-above 10000 || echo too slow",
    ),
)
@click.argument("pattern", default="*", type=PATTERN)
@click.option("--group", type=NAME, help="Only groups of this name.")
@click.option("--sort", type=click.Choice(sorted(_SORTS)), help="Order, largest or worst first. Examines all groups.")
@limit_option(1000, "groups")
@click.option("--watch", is_flag=True, help="Repeat until Ctrl-C.")
@click.option("--interval", default="5s", show_default=True, help="Time between two samples.")
@click.option("--samples", type=click.IntRange(1), help="Stop after N samples.")
@click.option(
    "--fail-above", type=int, metavar="N", help="Maximum lag. Ends with status 3 if a lag exceeds it or may exceed it."
)
@click.option(
    "--fail-behind",
    metavar="DURATION",
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
    interval: str,
    samples: int | None,
    fail_above: int | None,
    fail_behind: str | None,
    fail_status: bool,
) -> None:
    r"""Show the lag of groups: position, end, lag in entries and time, pending entries, idle time, status.

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
    """
    pause = times.duration(interval, "--interval") / 1000
    behind_ms = None if fail_behind is None else times.duration(fail_behind, "--fail-behind")
    taken = Samples(round(pause * 1000))
    for number in itertools.count(1):
        # With a --fail option, a stream that cannot be judged is an error.
        fails = fail_above is not None or behind_ms is not None or fail_status
        forbidden: set[bytes] | None = set() if is_glob(pattern) and not fails else None
        with run.out.progress("groups") as advance:
            found, more = taken.groups(
                run.connection,
                matching(run, pattern),
                group,
                limit=limit if sort is None else 0,
                budget=Budget.deciding(fail_above),
                forbidden=forbidden,
                advance=advance,
            )
        run.warn_of_forbidden(forbidden or ())
        if group is not None and not found and number == 1:
            fail("NO_SUCH_GROUP", stream=pattern, group=names.shown(group), address=run.connection.address.shown)
        rows = [GroupRow(*each) for each in found]
        now = found[0][0].at if found else paged_calls.now_ms(run.connection)
        _show(run, rows, now, sort, limit, more=more, watch=watch)
        if _fails(run, rows, fail_above, behind_ms, status=fail_status):
            exit_with_found(run)
        if not watch or number == samples:
            return
        run.out.flush()
        time.sleep(pause)


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
