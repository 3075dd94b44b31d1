"""MONITOR, SLOWLOG and LATENCY: the commands that clients run, and their durations.

The data is collected by ``engine.core.clients.monitors`` and ``engine.core.clients.telemetry``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.commands.families import server_command
from engine.core.protocol.args import at_most, parse_int
from engine.core.protocol.replies import OK, CommandError, Map, Reply
from engine.core.table.declare import container
from engine.core.table.registry import find
from engine.text import messages

if TYPE_CHECKING:
    from engine.core.environment.context import Context


@server_command("monitor", "admin loading stale")
def monitor(ctx: Context, argv: list[bytes]) -> Reply:
    """Streams the commands that clients run, except administrative commands."""
    if ctx.session.in_exec:
        raise CommandError(messages.MONITOR_IN_MULTI)
    ctx.monitors.add(ctx.session)
    return OK


# -- SLOWLOG ----------------------------------------------------------------------------------------------------------

slowlog_subcommand = container(
    "slowlog",
    "Commands that manage the log of slow commands.",
    group="server",
    since="2.2.12",
    flags="admin loading stale",
    help_since="6.2.0",
)


@slowlog_subcommand("get [count]", complexity="O(count)")
def slowlog_get(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the newest entries of the slow log: 10 or the given number; -1 returns all."""
    at_most(argv, 3)
    count = parse_int(argv[2], messages.SLOWLOG_COUNT) if len(argv) == 3 else 10
    if count < -1:
        raise CommandError(messages.SLOWLOG_COUNT)
    entries = list(ctx.telemetry.slow_log)
    return [
        [entry.number, entry.at, entry.microseconds, entry.words, entry.address, entry.name]
        for entry in (entries if count < 0 else entries[:count])
    ]


@slowlog_subcommand("len")
def slowlog_len(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of entries of the slow log."""
    return len(ctx.telemetry.slow_log)


@slowlog_subcommand("reset", complexity="O(entries)")
def slowlog_reset(ctx: Context, argv: list[bytes]) -> Reply:
    """Clears the slow log."""
    ctx.telemetry.slow_log.clear()
    return OK


# -- LATENCY ----------------------------------------------------------------------------------------------------------

latency_subcommand = container(
    "latency",
    "Commands about events that took at least latency-monitor-threshold.",
    group="server",
    since="2.8.13",
    flags="admin loading stale",
)


@latency_subcommand("latest")
def latest(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns each event with its latest and its longest sample."""
    return [[name, event.second, event.latest, event.longest] for name, event in ctx.telemetry.events.items()]


@latency_subcommand("reset [event [event ...]]")
def reset(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes all or some events, and returns the number of removed events."""
    events = ctx.telemetry.events
    return sum(events.pop(name, None) is not None for name in (argv[2:] or list(events)))


@latency_subcommand("histogram [command [command ...]]", since="7.0.0", complexity="O(commands)")
def histogram(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the distribution of the durations of all or some commands."""
    stats = ctx.telemetry.stats
    names = list(dict.fromkeys(name for word in argv[2:] for name in _named(word))) if len(argv) > 2 else list(stats)
    found: list[Reply] = []
    for name in names:
        stat = stats.get(name)
        if stat is not None and stat.calls:
            counts = [number for pair in stat.distribution() for number in pair]
            found += [name, Map.of({b"calls": stat.calls, b"histogram_usec": Map(counts)})]
    return Map(found)


def _named(word: bytes) -> list[bytes]:
    """Return the full names of a command and of its subcommands; empty for an unknown command."""
    command = find(word)
    if command is None:
        return []
    return [command.full_name, *(child.full_name for child in command.subcommands.values())]
