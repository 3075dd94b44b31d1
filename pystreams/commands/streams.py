"""`ls`, `info` and `report`: which streams there are, one of them, and what deserves a look."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

import click

from pystreams.commands.verbs import PATTERN, Run, limit_option, stream_argument, verb
from pystreams.output.out import Column
from pystreams.streams import asking, listing
from pystreams.streams.groups import describing as of_groups
from pystreams.streams.groups.describing import Group
from pystreams.streams.groups.status import STYLES, Status, judge
from pystreams.streams.listing import Stream
from pystreams.values import names, numbers, times
from streamclient.streams.lag import Budget
from streamwire.stream_id import StreamId

_READS = "+scan +xinfo +memory|usage +time"
_KEYS: dict[str, Callable[[Stream, int], float]] = {
    "length": lambda stream, _: stream.length,
    "bytes": lambda stream, _: stream.bytes or 0,
    "rate": lambda stream, now: (stream.rate if stream.rate is not None else stream.average_rate(now)) or 0.0,
    "groups": lambda stream, _: stream.groups,
    "newest": lambda stream, _: stream.last.ms if stream.last else 0,
}


def age(at: StreamId | None, now: int) -> int | None:
    """How long ago an entry was added, in milliseconds; None where its ID is no time of the past."""
    return now - at.ms if at is not None and 0 <= now - at.ms < now // 2 else None


def document(stream: Stream, now: int) -> dict[str, Any]:
    """A stream for programs."""
    newest, oldest = age(stream.last, now), age(stream.first, now)
    rate = stream.rate if stream.rate is not None else stream.average_rate(now)
    return {
        "stream": names.as_json(stream.name),
        "length": stream.length,
        "bytes": stream.bytes,
        "rate": None if rate is None else round(rate, 3),
        "first_id": None if stream.first is None else str(stream.first),
        "last_id": None if stream.last is None else str(stream.last),
        "oldest_seconds": None if oldest is None else oldest / 1000,
        "newest_seconds": None if newest is None else newest / 1000,
        "groups": stream.groups,
        "removed": stream.removed,
        "gaps": stream.has_gaps,
    }


@verb(
    "ls",
    needs=_READS,
    examples=("pystreams ls", "pystreams ls 'sensors:*' --sort bytes --limit 10", "pystreams ls --over 5s --json"),
)
@click.argument("pattern", default="*", type=PATTERN)
@click.option(
    "--sort", type=click.Choice(sorted(_KEYS)), help="Largest first. All streams are looked at, whatever the limit."
)
@limit_option(1000, "streams")
@click.option("--over", metavar="DURATION", help="Measure the rate for so long. Without it, it is the average so far.")
def ls(run: Run, pattern: str, sort: str | None, limit: int, over: str | None) -> None:
    """List streams that match the glob PATTERN: length, size, rate, age, groups.

    OLDEST and NEWEST are the ages of the first and the last entry. REMOVED counts entries that were trimmed or deleted.
    """
    found, more = _chosen(run, pattern, sort, limit)
    if over is not None and found:
        found = listing.measured(run.connection, found, times.duration(over, "--over") / 1000)
        if sort == "rate":
            found.sort(key=lambda stream: _KEYS["rate"](stream, run.now), reverse=True)
    if run.out.json:
        run.out.document({"streams": [document(stream, run.now) for stream in found], "more": more})
        return
    columns = [Column("STREAM")]
    columns += [Column(title, right=True) for title in ("LENGTH", "BYTES", "RATE", "OLDEST", "NEWEST", "GROUPS")]
    columns.append(Column("REMOVED", right=True))
    run.out.table(columns, [_row(stream, run.now) for stream in found], empty=f"No stream matches {pattern}.")
    if more:
        run.out.note(f"There are more: this is --limit {limit}.")


def _chosen(run: Run, pattern: str, sort: str | None, limit: int) -> tuple[list[Stream], bool]:
    """The streams to show, and whether there are more."""
    matching = listing.scan(run.connection, names.from_shell(pattern))
    with run.out.progress("streams") as advance:
        if sort is None:
            asked = list(itertools.islice(matching, limit + 1)) if limit else list(matching)
            more = bool(limit) and len(asked) > limit
            found = []
            for stream in listing.look(run.connection, sorted(asked[:limit] if limit else asked)):
                advance(1)
                found.append(stream)
            return found, more
        count = 0

        def counted() -> Any:
            nonlocal count
            for stream in listing.look(run.connection, matching, memory=sort == "bytes"):
                count += 1
                advance(1)
                yield stream

        def key(stream: Stream) -> float:
            return _KEYS[sort](stream, run.now)

        found = heapq.nlargest(limit, counted(), key) if limit else sorted(counted(), key=key)[::-1]
        if sort != "bytes":
            sized = {stream.name: stream for stream in listing.look(run.connection, [each.name for each in found])}
            found = [sized[stream.name] for stream in found if stream.name in sized]
        return found, count > len(found)


def _row(stream: Stream, now: int) -> list[str]:
    return [
        names.shown(stream.name),
        numbers.count(stream.length),
        numbers.size(stream.bytes),
        numbers.rate(stream.rate if stream.rate is not None else stream.average_rate(now)),
        times.shown(age(stream.first, now)),
        times.shown(age(stream.last, now)),
        numbers.count(stream.groups),
        numbers.count(stream.removed),
    ]


@verb("info", needs=_READS, examples=("pystreams info orders", "pystreams info orders --json"))
@stream_argument
def info(run: Run, stream: bytes) -> None:
    """Show one stream: entries, IDs, what was removed, size, rate, groups.

    Deleted entries leave no trace of their own. What the server knows is how many entries are gone, and the largest ID
    that was deleted: where that lies behind the first entry, the stream has a gap.
    """
    found = listing.need(run.connection, stream)
    members = list(of_groups.groups(run.connection, [stream], run.now))
    if run.out.json:
        run.out.document(
            {
                **document(found, run.now),
                "generated_id": str(found.generated),
                "added": found.added,
                "max_deleted_id": str(found.deleted),
                "average_bytes": None if not found.bytes or not found.length else round(found.bytes / found.length),
                "groups": [
                    {"group": names.as_json(group.name), **of_groups.lag_json(group), "pending": group.pending}
                    for group in members
                ],
            }
        )
        return
    rows = [
        ["stream", names.shown(found.name)],
        ["entries", numbers.count(found.length)],
        ["added in all", numbers.count(found.added)],
        ["removed", f"{numbers.count(found.removed)}{_gap(found)}"],
        ["first", _when(found.first, run.now)],
        ["last", _when(found.last, run.now)],
        ["last ID made", str(found.generated)],
        ["size", numbers.size(found.bytes)],
        ["average rate", numbers.rate(found.average_rate(run.now))],
        ["groups", ", ".join(_group(group) for group in members) or "none"],
    ]
    for title, value in rows:
        run.out.line(f"{title:<13} {value}")


def _gap(stream: Stream) -> str:
    return f", with gaps among those that are left (the last at {stream.deleted})" if stream.has_gaps else ""


def _when(at: StreamId | None, now: int) -> str:
    if at is None:
        return "-"
    since = age(at, now)
    return f"{at} ({times.iso(at.ms)}, {times.shown(since)} ago)" if since is not None else str(at)


def _group(group: Group) -> str:
    lag = numbers.count(group.lag, exact=group.exact)
    return f"{names.shown(group.name)} (lag {lag}, pending {numbers.count(group.pending)})"


@verb("report", needs=f"{_READS} +xpending +xrange", examples=("pystreams report", "pystreams report --top 20 --json"))
@click.option(
    "--top", type=click.IntRange(0), default=10, show_default=True, help="Show so many groups and streams of each kind."
)
def report(run: Run, top: int) -> None:
    """Look at all streams and groups, and show the totals and what deserves a look.

    Every stream and group is asked about, in pages; 'ls' and 'groups lag' ask about less.
    """
    totals = {"streams": 0, "entries": 0, "groups": 0, "lag": 0, "pending": 0}
    statuses = dict.fromkeys((status.value for status in Status), 0)
    worst: list[tuple[int, int, Group]] = []
    largest: list[tuple[int, bytes]] = []
    order = itertools.count()
    budget, exact = Budget(), True
    with run.out.progress("streams") as advance:
        for page in asking.pages(listing.scan(run.connection)):
            streams = list(listing.look(run.connection, page, memory=False))
            totals["streams"] += len(streams)
            totals["entries"] += sum(stream.length for stream in streams)
            largest = heapq.nlargest(top, [*largest, *((stream.length, stream.name) for stream in streams)])
            for group in of_groups.groups_of(run.connection, streams, run.now, budget=budget):
                status = judge([group.sample])
                statuses[status] += 1
                totals["groups"] += 1
                totals["lag"] += group.lag or 0
                exact = exact and group.exact
                totals["pending"] += group.pending
                if group.lag or group.pending:
                    weight = (status != Status.OK) * 2**62 + (group.lag or 0) + group.pending
                    worst = heapq.nlargest(top, [*worst, (weight, -next(order), group)], key=lambda each: each[:2])
            advance(len(page))
    slow = [group for _, _, group in worst]
    if run.out.json:
        run.out.document(
            {
                **totals,
                "lag_exact": exact,
                "status": statuses,
                "behind": [_behind(group) for group in slow],
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
        columns = [Column("STREAM"), Column("GROUP"), Column("STATUS", styles=STYLES), Column("LAG", right=True)]
        columns += [Column("BEHIND", right=True), Column("PENDING", right=True)]
        run.out.table(columns, [_slow(group) for group in slow])
    if largest:
        run.out.line()
        rows = [[names.shown(name), numbers.count(length)] for length, name in largest]
        run.out.table([Column("LARGEST STREAMS"), Column("LENGTH", right=True)], rows)


def _behind(group: Group) -> dict[str, Any]:
    return {
        "stream": names.as_json(group.stream.name),
        "group": names.as_json(group.name),
        "status": judge([group.sample]).value,
        **of_groups.lag_json(group),
        "lag_seconds": None if group.behind_ms is None else group.behind_ms / 1000,
        "pending": group.pending,
    }


def _slow(group: Group) -> list[str]:
    return [
        names.shown(group.stream.name),
        names.shown(group.name),
        judge([group.sample]).value,
        numbers.count(group.lag, exact=group.exact),
        times.shown(group.behind_ms),
        numbers.count(group.pending),
    ]


VERBS = (ls, info, report)
