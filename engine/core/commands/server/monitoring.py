"""INFO's text, and MONITOR, SLOWLOG and LATENCY: the commands that clients run, and their durations.

Facts that Redis also reports have the same names as in Redis, because tools read them. All other names start with
``engine_``. Facts of Redis without a meaning here are left out instead of being constants. Timings are collected by
``engine.core.clients.telemetry``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.core.commands.families import server_command
from engine.core.protocol.args import at_most, parse_int
from engine.core.protocol.replies import OK, CommandError, Map, Reply
from engine.core.table.declare import container
from engine.core.table.registry import find
from engine.text import messages
from engine.version import ENGINE_VERSION, REDIS_VERSION

if TYPE_CHECKING:
    from engine.core.clients.session import Waiter
    from engine.core.environment.context import Context
    from engine.core.environment.host import ProcessFacts


_Lines = list[tuple[str, Any]]


def _human(size: int) -> str:
    """Format a size as Redis does in human-readable fields."""
    if size < 1024:
        return f"{size}B"
    for unit, bits in (("K", 10), ("M", 20), ("G", 30)):
        if size < 1 << bits + 10:
            return f"{size / (1 << bits):.2f}{unit}"
    return f"{size / (1 << 40):.2f}T"


def _server(ctx: Context, facts: ProcessFacts) -> _Lines:
    now_us = facts.now_us or ctx.now_us
    uptime = max(now_us - (facts.started_us or now_us), 0) // 1_000_000
    return [
        ("redis_version", REDIS_VERSION),
        ("redis_build_id", "0"),
        ("redis_mode", "standalone"),
        ("arch_bits", 64),
        ("os", facts.os),
        ("multiplexing_api", facts.loop),
        ("process_id", facts.pid),
        ("run_id", facts.run_id),
        ("tcp_port", facts.port),
        ("server_time_usec", now_us),
        ("uptime_in_seconds", uptime),
        ("uptime_in_days", uptime // 86400),
        ("executable", facts.executable),
        ("config_file", facts.config_file),
        ("engine_name", "pystreams"),
        ("engine_release", ENGINE_VERSION),
        ("engine_python", facts.python),
    ]


def _clients(ctx: Context, facts: ProcessFacts) -> _Lines:
    blocked = ctx.sessions.blocked()
    timed = sum(waiter.deadline is not None for waiter in _waiters(ctx))
    listening = sum(bool(session.subscriptions) for session in ctx.sessions)
    return [
        ("connected_clients", len(ctx.sessions)),
        ("maxclients", ctx.config.integer("maxclients")),
        ("blocked_clients", len(blocked) + facts.held_back),
        ("pubsub_clients", listening),
        ("watching_clients", sum(bool(session.watching) for session in ctx.sessions)),
        ("clients_in_timeout_table", timed),
        ("total_watched_keys", len(ctx.changes.watchers)),
        ("total_blocking_keys", sum(len(db.waiting) for db in ctx.databases)),
        ("total_blocking_keys_on_nokey", _waited_for_deletion(ctx)),
    ]


def _waited_for_deletion(ctx: Context) -> int:
    """Return the number of keys whose deletion unblocks a client, such as one that waits in XREADGROUP."""
    return len({(waiter.db, key) for waiter in _waiters(ctx) if waiter.on_delete for key in waiter.keys})


def _waiters(ctx: Context) -> list[Waiter]:
    return [session.waiter for session in ctx.sessions.blocked() if session.waiter is not None]


def _memory(ctx: Context, facts: ProcessFacts) -> _Lines:
    used, peak, system = facts.memory, facts.memory_peak, facts.memory_system
    limit = ctx.config.integer("maxmemory")
    return [
        ("used_memory", used),
        ("used_memory_human", _human(used)),
        ("used_memory_rss", used),
        ("used_memory_rss_human", _human(used)),
        ("used_memory_peak", peak),
        ("used_memory_peak_human", _human(peak)),
        ("used_memory_peak_perc", f"{100 * used / peak if peak else 0:.2f}%"),
        ("total_system_memory", system),
        ("total_system_memory_human", _human(system)),
        ("maxmemory", limit),
        ("maxmemory_human", _human(limit)),
        ("maxmemory_policy", "noeviction"),
        ("mem_clients_slaves", sum(session.buffers().replies for session in ctx.sessions if session.is_replica)),
        ("mem_replication_backlog", dict(ctx.replication.info()).get("repl_backlog_histlen", 0)),
    ]


def _persistence(ctx: Context, facts: ProcessFacts) -> _Lines:
    del facts
    lines = ctx.durability.info() or [
        ("loading", 0),
        ("async_loading", 0),
        ("rdb_changes_since_last_save", ctx.changes.dirty),
    ]
    loading = ctx.replication.loading()
    # The first two lines of ``loading`` replace the first two of ``lines``.
    return [*loading[:2], *lines[2:], *loading[2:]] if loading else lines


#: Refusal counters in INFO: pairs of the end of the counter's name and the refusal reason that it counts.
_DENIED = (("auth", "auth"), ("cmd", "command"), ("key", "key"), ("channel", "channel"), ("tls_cert", "tls-cert"))


def _stats(ctx: Context, facts: ProcessFacts) -> _Lines:
    denied = ctx.accounts.log.denied
    return [
        ("total_connections_received", facts.accepted),
        ("total_commands_processed", ctx.telemetry.commands),
        ("instantaneous_ops_per_sec", facts.ops_per_sec),
        ("total_net_input_bytes", facts.bytes_in),
        ("total_net_output_bytes", facts.bytes_out),
        ("instantaneous_input_kbps", f"{facts.kbps_in:.2f}"),
        ("instantaneous_output_kbps", f"{facts.kbps_out:.2f}"),
        ("rejected_connections", facts.rejected),
        *ctx.replication.statistics().items(),
        ("expired_keys", ctx.changes.expired_keys),
        ("evicted_keys", 0),
        ("keyspace_hits", sum(db.hits for db in ctx.databases)),
        ("keyspace_misses", sum(db.misses for db in ctx.databases)),
        ("pubsub_channels", len(ctx.pubsub.channels)),
        ("pubsub_patterns", len(ctx.pubsub.patterns)),
        ("total_error_replies", ctx.telemetry.error_replies),
        ("client_query_buffer_limit_disconnections", facts.query_overruns),
        ("client_output_buffer_limit_disconnections", facts.output_overruns),
        *((f"acl_access_denied_{name}", denied[reason]) for name, reason in _DENIED),
    ]


def _replication(ctx: Context, facts: ProcessFacts) -> _Lines:
    del facts
    return ctx.replication.info()


def _cpu(ctx: Context, facts: ProcessFacts) -> _Lines:
    return [
        ("used_cpu_sys", f"{facts.cpu_sys:.6f}"),
        ("used_cpu_user", f"{facts.cpu_user:.6f}"),
        ("used_cpu_sys_children", f"{facts.cpu_sys_children:.6f}"),
        ("used_cpu_user_children", f"{facts.cpu_user_children:.6f}"),
    ]


def _commandstats(ctx: Context, facts: ProcessFacts) -> _Lines:
    del facts
    lines: _Lines = []
    for name, stat in ctx.telemetry.stats.items():
        calls, micros = stat.calls, stat.ns // 1000
        each = stat.ns / 1000 / calls if calls else 0.0
        counts = f"calls={calls},usec={micros},usec_per_call={each:.2f}"
        lines.append(
            (f"cmdstat_{name.decode()}", f"{counts},rejected_calls={stat.rejected},failed_calls={stat.failed}")
        )
    return lines


#: Replaces the characters of INFO's own syntax in an error's code.
_SAFE = bytes.maketrans(b"#:\r\n", b"____")


def _errorstats(ctx: Context, facts: ProcessFacts) -> _Lines:
    del facts
    errors = ctx.telemetry.errors.items()
    return [(f"errorstat_{code.translate(_SAFE).decode('latin-1')}", f"count={count}") for code, count in errors]


def _keyspace(ctx: Context, facts: ProcessFacts) -> _Lines:
    del facts
    return [(f"db{db.index}", f"keys={len(db)},expires={db.expiring()},avg_ttl=0") for db in ctx.databases if len(db)]


def _nothing(ctx: Context, facts: ProcessFacts) -> _Lines:
    del ctx, facts
    return []


def _cluster(ctx: Context, facts: ProcessFacts) -> _Lines:
    del ctx, facts
    return [("cluster_enabled", 0)]


_SECTIONS: dict[str, Callable[[Context, ProcessFacts], _Lines]] = {
    "server": _server,
    "clients": _clients,
    "memory": _memory,
    "persistence": _persistence,
    "stats": _stats,
    "replication": _replication,
    "cpu": _cpu,
    "modules": _nothing,
    "commandstats": _commandstats,
    "errorstats": _errorstats,
    "cluster": _cluster,
    "keyspace": _keyspace,
}
_BY_DEFAULT = [name for name in _SECTIONS if name != "commandstats"]
_TITLES = {"cpu": "CPU"}


def text(ctx: Context, wanted: list[str]) -> bytes:
    """Return the ``wanted`` sections, in Redis's order.

    ``default`` (also used for an empty list), ``all`` and ``everything`` select several sections.
    """
    names: set[str] = set()
    for word in wanted or ["default"]:
        if word in ("all", "everything"):
            names |= set(_SECTIONS) - ({"modules"} if word == "all" else set())
        elif word == "default":
            names |= set(_BY_DEFAULT)
        else:
            names.add(word)
    facts = ctx.host.facts()
    blocks = [
        "".join([f"# {_TITLES.get(name, name.capitalize())}\r\n", *(f"{key}:{value}\r\n" for key, value in lines)])
        for name, lines in ((name, make(ctx, facts)) for name, make in _SECTIONS.items() if name in names)
    ]
    return "\r\n".join(blocks).encode()


@server_command("monitor", "admin loading stale")
def monitor(ctx: Context, argv: list[bytes]) -> Reply:
    """Streams the commands that clients run, except administrative commands."""
    if ctx.session.in_exec:
        raise CommandError(b"ERR MONITOR isn't allowed for DENY BLOCKING client")
    ctx.monitors.add(ctx.session)
    return OK


# -- SLOWLOG ----------------------------------------------------------------------------------------------------------

slowlog_subcommand = container(
    "slowlog",
    "Commands that manage the log of slow commands.",
    group="server",
    flags="admin loading stale",
)


@slowlog_subcommand("get [count]")
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


@slowlog_subcommand("reset")
def slowlog_reset(ctx: Context, argv: list[bytes]) -> Reply:
    """Clears the slow log."""
    ctx.telemetry.slow_log.clear()
    return OK


# -- LATENCY ----------------------------------------------------------------------------------------------------------

latency_subcommand = container(
    "latency",
    "Commands about events that took at least latency-monitor-threshold.",
    group="server",
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


@latency_subcommand("histogram [command [command ...]]")
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
