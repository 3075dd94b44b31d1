"""`pending ls, ack, claim, nack` and `consumers rm`: unacknowledged entries and their consumers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from pystreams import measures
from pystreams.commands.arguments import NAME, group_argument, ids_argument, limit_option, stream_argument
from pystreams.commands.verbs import PERIOD, Run, verb, verb_group, write_rows
from pystreams.errors import fail
from pystreams.measures import DURATION, WORD, Measure, View
from pystreams.streams import group_states as of_groups
from pystreams.streams import paged_calls, pending, seeks
from pystreams.streams.pending import Pending, Which
from pystreams.values import names, numbers
from streamclient.connection import Connection

_READS = "+xinfo +xpending"
_PENDING: View[Pending] = (
    Measure("id", lambda row: row.id, WORD),
    Measure("consumer", lambda row: row.consumer, WORD),
    Measure("idle", lambda row: row.idle_ms, DURATION),
    Measure("deliveries", lambda row: row.deliveries),
)


def _chosen(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add STREAM, GROUP and the options that select entries. The function receives the selection as `which`."""

    @functools.wraps(function)
    def chosen(
        run: Run, *, ids: tuple[bytes, ...], idle: int, deliveries: int, consumer: bytes | None, **others: Any
    ) -> None:
        function(run, which=Which(ids, consumer, idle, deliveries), **others)

    made: Callable[..., Any] = chosen
    for option in (
        click.option("--consumer", type=NAME, help="Only entries of this consumer."),
        click.option("--deliveries", type=click.IntRange(0), default=0, help="Minimum number of deliveries."),
        click.option("--idle", type=PERIOD, default=0, help="Minimum time since the last delivery, such as 15m."),
        ids_argument,
    ):
        made = option(made)
    return group_argument_first(made)


def group_argument_first(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments STREAM and GROUP before all others."""
    return stream_argument(group_argument(function))


@verb(
    "ls",
    needs=_READS,
    examples=(
        "pystreams pending ls orders billing",
        "pystreams pending ls orders billing --idle 10m --deliveries 3",
        "pystreams pending ls orders billing --consumer worker-7 --json",
    ),
)
@_chosen
@limit_option(100, "entries")
def ls(run: Run, stream: bytes, group: bytes, which: Which, limit: int) -> None:
    """List entries that were delivered and not acknowledged, in the order of their IDs.

    Entries that were given back by XNACK ('pending nack') have neither consumer nor IDLE. --json writes one line per
    entry.
    """
    total = pending.total(run.connection, stream, group)
    shown, more = 0, False
    rows: list[Pending] = []
    for page in run.out.progress("pending entries", pending.find(run.connection, stream, group, which), total, len):
        entries = page[: limit - shown] if limit else page
        more = len(entries) < len(page)
        shown += len(entries)
        if run.out.structured:
            for entry in entries:
                run.out.record(measures.document(_PENDING, entry))
        else:
            rows += entries
        if more:
            break
    if not run.out.structured:
        write_rows(run.out, _PENDING, rows, empty="No pending entry matches.")
        if more:
            run.out.note(f"Only {limit} entries are shown (--limit). The group has {total:,} pending entries.")


#: Acts on pending entries of a stream and group, and returns their number.
OnPending = Callable[[Connection, bytes, bytes, list[Pending]], int]


def _change(
    run: Run,
    stream: bytes,
    group: bytes,
    which: Which,
    everything: bool,
    words: tuple[str, str],
    act: OnPending,
    drops: OnPending | None = None,
) -> None:
    """Ask for confirmation, and process the selected entries in pages. `words`: the verb and its past participle.

    `drops` returns the number of entries that no longer exist, if `act` removes them from the pending list instead.
    """
    if which.is_all != everything:
        raise click.UsageError("Select entries by ID, --idle, --deliveries or --consumer; or use --all alone.")
    total = pending.total(run.connection, stream, group)
    gone = 0
    chosen: list[Pending] = []
    for page in run.out.progress("pending entries", pending.find(run.connection, stream, group, which), total, len):
        chosen += page
        gone += drops(run.connection, stream, group, page) if drops is not None else 0
    count = len(chosen)
    every = numbers.things(total, "pending entry")
    plan = f"{words[0]} {count:,} of {every} of {names.shown(group)} in {names.shown(stream)}"
    if gone:
        plan += f"; {gone:,} of them no longer exist in the stream and leave the pending list"
    dropped = {} if drops is None else {"dropped": gone}
    if not count:
        run.done(f"No pending entry matches ({total:,} in total).", {words[1]: 0, **dropped, "pending": total})
        return
    if not run.may(plan, {"entries": count, **dropped, "pending": total}):
        return
    done = gone = changed = 0
    for shown in run.out.progress(words[0], paged_calls.pages(chosen, 1000), count, len):
        page = pending.unchanged(run.connection, stream, group, shown)
        changed += len(shown) - len(page)
        if page:
            gone += drops(run.connection, stream, group, page) if drops is not None else 0
            done += act(run.connection, stream, group, page)
    if changed:
        run.out.warn(f"Left alone, because they were delivered or acknowledged meanwhile: {changed:,}.")
    left = pending.total(run.connection, stream, group)
    without = f" {gone:,} that no longer exist left the pending list." if gone else ""
    dropped = {} if drops is None else {"dropped": gone}
    run.done(
        f"{words[1].capitalize()} {numbers.things(done, 'entry')}; {left:,} still pending.{without}",
        {words[1]: done, **dropped, "pending": left},
    )


@verb(
    "ack",
    needs=f"{_READS} +xack",
    changes=True,
    examples=(
        "pystreams pending ack orders billing 1526919030474-0",
        "pystreams pending ack orders billing --idle 7d --dry-run",
    ),
)
@_chosen
@click.option("--all", "everything", is_flag=True, help="Select all pending entries.")
def ack(run: Run, stream: bytes, group: bytes, which: Which, everything: bool) -> None:
    """Acknowledge entries on behalf of their consumers."""
    _change(run, stream, group, which, everything, ("acknowledge", "acknowledged"), pending.acknowledge)


@verb(
    "claim",
    needs=f"{_READS} +xclaim +xrange",
    changes=True,
    examples=("pystreams pending claim orders billing --to worker-2 --consumer worker-1 --idle 10m",),
)
@_chosen
@click.option("--all", "everything", is_flag=True, help="Select all pending entries.")
@click.option("--to", required=True, type=NAME, metavar="CONSUMER", help="Consumer that receives the entries.")
def claim(run: Run, stream: bytes, group: bytes, which: Which, everything: bool, to: bytes) -> None:
    """Assign entries to another consumer, which receives them when it reads its pending entries again.

    With --idle, an entry that is delivered again meanwhile keeps its consumer. Delivery counts do not change. Entries
    that were trimmed or deleted cannot be claimed: the server removes them from the pending list.
    """

    def act(connection: Connection, stream: bytes, group: bytes, page: list[Pending]) -> int:
        return pending.claim(connection, stream, group, page, to, which.idle_ms)

    _change(run, stream, group, which, everything, ("claim", "claimed"), act, pending.removed)


@verb(
    "nack",
    needs=f"{_READS} +xclaim",
    changes=True,
    examples=(
        "pystreams pending nack orders billing --consumer worker-1",
        "pystreams pending nack orders billing 5-0 -y",
    ),
)
@_chosen
@click.option("--all", "everything", is_flag=True, help="Select all pending entries.")
def nack(run: Run, stream: bytes, group: bytes, which: Which, everything: bool) -> None:
    """Give entries back, so that the next claim by any consumer includes them.

    Uses XNACK on the engine and Redis 8.8. On other servers, sets the idle time of the entries to a day, so that claims
    by idle time include them.
    """
    _change(run, stream, group, which, everything, ("give back", "returned"), pending.give_back)


@verb(
    "rm",
    needs=f"+xinfo +xpending +xrange +xgroup|delconsumer +time {seeks.NEEDS}",
    changes=True,
    examples=(
        "pystreams consumers rm orders billing --idle 7d",
        "pystreams consumers rm orders billing worker-1 --with-pending --yes",
    ),
)
@group_argument_first
@click.argument("consumers", nargs=-1, type=NAME, metavar="[CONSUMER]...")
@click.option("--idle", type=PERIOD, help="Minimum time since a consumer's last call.")
@click.option(
    "--with-pending",
    is_flag=True,
    help="Also remove consumers that have pending entries, which are then no longer pending.",
)
def remove(
    run: Run, stream: bytes, group: bytes, consumers: tuple[bytes, ...], idle: int | None, with_pending: bool
) -> None:
    """Remove consumers from a group. Consumers with pending entries stay, unless --with-pending is given.

    Pending entries of a removed consumer are neither acknowledged nor delivered again. To keep them, first assign them
    to another consumer ('pystreams pending claim').
    """
    if bool(consumers) == (idle is not None):
        raise click.UsageError("Give consumers, or --idle.")
    found = {each.name: each for each in of_groups.need(run.connection, stream, group, run.now).consumers or ()}
    for name in consumers:
        if name not in found:
            fail("NO_SUCH_CONSUMER", stream=names.shown(stream), group=names.shown(group), consumer=names.shown(name))
    meant = [found[name] for name in consumers] or [each for each in found.values() if each.idle_ms >= (idle or 0)]
    removable = [each for each in meant if with_pending or not each.pending]
    if len(removable) < len(meant):
        skipped = ", ".join(names.shown(each.name) for each in meant if each not in removable)
        run.out.warn(
            f"Not removed, because they have pending entries: {skipped}. --with-pending also removes these consumers."
        )
    if not removable:
        run.done("No consumer was removed.", {"removed": [], "pending": 0})
        return
    entries = sum(each.pending for each in removable)
    shown = ", ".join(names.shown(each.name) for each in removable[:10]) + (", ..." if len(removable) > 10 else "")
    plan = (
        f"remove {numbers.things(len(removable), 'consumer')} ({shown}) with "
        f"{numbers.things(entries, 'pending entry')} from {names.shown(group)}"
    )
    if run.may(plan, {"consumers": [names.as_json(each.name) for each in removable], "pending": entries}):
        dropped = seeks.remove_consumers(run.connection, stream, group, removable)
        removed = [names.as_json(each.name) for each in removable]
        with_them = f" with {numbers.things(dropped, 'pending entry')}" if dropped else ""
        done = f"Removed {numbers.things(len(removable), 'consumer')}{with_them}."
        run.done(done, {"removed": removed, "pending": dropped})


VERBS = (
    verb_group("consumers", "Consumers of a group.", remove),
    verb_group("pending", "Entries that were delivered and not acknowledged.", ls, ack, claim, nack),
)
