"""INFO's text: sections of ``name:value`` lines, from what the core keeps and what the shell knows of the process.

Names are Redis's where the fact is the same, because tools read them; our own begin with ``engine_``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.version import ENGINE_VERSION, REDIS_VERSION

if TYPE_CHECKING:
    from engine.core.dispatch import Core

_Lines = list[tuple[str, Any]]
_NO_REPLICATION_ID = "0" * 40


def _human(size: int) -> str:
    """A size as Redis writes it for people."""
    if size < 1024:
        return f"{size}B"
    for unit, bits in (("K", 10), ("M", 20), ("G", 30)):
        if size < 1 << bits + 10:
            return f"{size / (1 << bits):.2f}{unit}"
    return f"{size / (1 << 40):.2f}T"


def _server(core: Core, facts: dict[str, Any]) -> _Lines:
    now_us = facts.get("now_us", core.now_us)
    uptime = max(now_us - facts.get("started_us", now_us), 0) // 1_000_000
    return [
        ("redis_version", REDIS_VERSION),
        ("redis_git_sha1", "00000000"),
        ("redis_git_dirty", 0),
        ("redis_build_id", "0"),
        ("redis_mode", "standalone"),
        ("os", facts.get("os", "")),
        ("arch_bits", 64),
        ("monotonic_clock", "POSIX clock_gettime"),
        ("multiplexing_api", facts.get("loop", "")),
        ("process_id", facts.get("pid", 0)),
        ("process_supervised", "no"),
        ("run_id", facts.get("run_id", _NO_REPLICATION_ID)),
        ("tcp_port", facts.get("port", 0)),
        ("server_time_usec", now_us),
        ("uptime_in_seconds", uptime),
        ("uptime_in_days", uptime // 86400),
        ("hz", core.config.integer("hz")),
        ("configured_hz", core.config.integer("hz")),
        ("lru_clock", now_us // 1_000_000 & 0xFFFFFF),
        ("executable", facts.get("executable", "")),
        ("config_file", facts.get("config_file", "")),
        ("io_threads_active", 0),
        ("engine_name", "pystreams"),
        ("engine_version", ENGINE_VERSION),
        ("engine_python", facts.get("python", "")),
    ]


def _clients(core: Core, facts: dict[str, Any]) -> _Lines:
    blocked = list(core.blocked())
    timed = sum(one.waiter is not None and one.waiter.deadline is not None for one in blocked)
    listening = sum(bool(one.channels or one.patterns) for one in core.sessions.values())
    return [
        ("connected_clients", facts.get("connections", len(core.sessions))),
        ("cluster_connections", 0),
        ("maxclients", core.config.integer("maxclients")),
        ("client_recent_max_input_buffer", 0),
        ("client_recent_max_output_buffer", 0),
        ("blocked_clients", len(blocked)),
        ("tracking_clients", 0),
        ("pubsub_clients", listening),
        ("watching_clients", sum(bool(one.watching) for one in core.sessions.values())),
        ("clients_in_timeout_table", timed),
        ("total_watched_keys", len(core.watchers)),
        ("total_blocking_keys", sum(len(db.waiting) for db in core.databases)),
    ]


def _memory(core: Core, facts: dict[str, Any]) -> _Lines:
    used, peak, system = facts.get("memory", 0), facts.get("memory_peak", 0), facts.get("memory_system", 0)
    limit = core.config.integer("maxmemory")
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
        ("maxmemory_policy", core.config.text("maxmemory-policy").decode()),
        ("mem_fragmentation_ratio", "1.00"),
        ("mem_allocator", "python"),
        ("active_defrag_running", 0),
        ("lazyfree_pending_objects", 0),
    ]


def _persistence(core: Core, facts: dict[str, Any]) -> _Lines:
    return core.durability.info() or [
        ("loading", 0),
        ("async_loading", 0),
        ("rdb_changes_since_last_save", core.dirty),
        ("rdb_bgsave_in_progress", 0),
        ("rdb_last_save_time", facts.get("started_us", 0) // 1_000_000),
        ("rdb_last_bgsave_status", "ok"),
        ("rdb_last_bgsave_time_sec", -1),
        ("rdb_current_bgsave_time_sec", -1),
        ("rdb_saves", 0),
        ("aof_enabled", 0),
        ("aof_rewrite_in_progress", 0),
        ("aof_rewrite_scheduled", 0),
        ("aof_last_rewrite_time_sec", -1),
        ("aof_current_rewrite_time_sec", -1),
        ("aof_last_bgrewrite_status", "ok"),
        ("aof_last_write_status", "ok"),
    ]


#: Names of counts of refusals, and the reasons.
_DENIED = (("auth", "auth"), ("cmd", "command"), ("key", "key"), ("channel", "channel"))


def _stats(core: Core, facts: dict[str, Any]) -> _Lines:
    denied = core.accounts.log.denied
    return [
        ("total_connections_received", facts.get("accepted", 0)),
        ("total_commands_processed", core.commands_processed),
        ("instantaneous_ops_per_sec", facts.get("ops_per_sec", 0)),
        ("total_net_input_bytes", facts.get("bytes_in", 0)),
        ("total_net_output_bytes", facts.get("bytes_out", 0)),
        ("instantaneous_input_kbps", f"{facts.get('kbps_in', 0):.2f}"),
        ("instantaneous_output_kbps", f"{facts.get('kbps_out', 0):.2f}"),
        ("rejected_connections", facts.get("rejected", 0)),
        ("sync_full", 0),
        ("sync_partial_ok", 0),
        ("sync_partial_err", 0),
        ("expired_keys", core.expired_keys),
        ("evicted_keys", 0),
        ("evicted_clients", 0),
        ("keyspace_hits", sum(db.hits for db in core.databases)),
        ("keyspace_misses", sum(db.misses for db in core.databases)),
        ("pubsub_channels", len(core.pubsub.channels)),
        ("pubsub_patterns", len(core.pubsub.patterns)),
        ("pubsubshard_channels", 0),
        ("latest_fork_usec", 0),
        ("total_forks", 0),
        ("total_error_replies", sum(core.error_stats.values())),
        ("client_query_buffer_limit_disconnections", facts.get("query_overruns", 0)),
        ("client_output_buffer_limit_disconnections", facts.get("output_overruns", 0)),
        *((f"acl_access_denied_{name}", denied[reason]) for name, reason in _DENIED),
    ]


def _replication(core: Core, facts: dict[str, Any]) -> _Lines:
    return [
        ("role", "master"),
        ("connected_slaves", 0),
        ("master_failover_state", "no-failover"),
        ("master_replid", facts.get("run_id", _NO_REPLICATION_ID)),
        ("master_replid2", _NO_REPLICATION_ID),
        ("master_repl_offset", 0),
        ("second_repl_offset", -1),
        ("repl_backlog_active", 0),
        ("repl_backlog_size", core.config.integer("repl-backlog-size")),
        ("repl_backlog_first_byte_offset", 0),
        ("repl_backlog_histlen", 0),
    ]


def _cpu(core: Core, facts: dict[str, Any]) -> _Lines:
    del core
    return [
        (f"used_cpu_{name}", f"{facts.get('cpu_' + name, 0.0):.6f}")
        for name in ("sys", "user", "sys_children", "user_children")
    ]


def _commandstats(core: Core, facts: dict[str, Any]) -> _Lines:
    del facts
    lines: _Lines = []
    for name, stat in core.telemetry.stats.items():
        calls, micros = stat.calls, stat.ns // 1000
        each = stat.ns / 1000 / calls if calls else 0.0
        counts = f"calls={calls},usec={micros},usec_per_call={each:.2f}"
        lines.append(
            (f"cmdstat_{name.decode()}", f"{counts},rejected_calls={stat.rejected},failed_calls={stat.failed}")
        )
    return lines


def _latencystats(core: Core, facts: dict[str, Any]) -> _Lines:
    del facts
    wanted = core.config.value("latency-tracking-info-percentiles", tuple)
    if not core.config.flag("latency-tracking"):
        return []
    return [
        (
            f"latency_percentiles_usec_{name.decode()}",
            ",".join(f"p{percent:g}={stat.percentile(percent):.3f}" for percent in wanted),
        )
        for name, stat in core.telemetry.stats.items()
        if stat.calls
    ]


def _errorstats(core: Core, facts: dict[str, Any]) -> _Lines:
    del facts
    return [(f"errorstat_{code.decode('latin-1')}", f"count={count}") for code, count in core.error_stats.items()]


def _keyspace(core: Core, facts: dict[str, Any]) -> _Lines:
    del facts
    return [
        (f"db{db.index}", f"keys={len(db)},expires={db.expiring()},avg_ttl=0,subexpiry=0")
        for db in core.databases
        if len(db)
    ]


def _nothing(core: Core, facts: dict[str, Any]) -> _Lines:
    del core, facts
    return []


def _cluster(core: Core, facts: dict[str, Any]) -> _Lines:
    del core, facts
    return [("cluster_enabled", 0)]


_SECTIONS: dict[str, Callable[[Core, dict[str, Any]], _Lines]] = {
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
    "latencystats": _latencystats,
    "cluster": _cluster,
    "keyspace": _keyspace,
}
_BY_DEFAULT = [name for name in _SECTIONS if name not in ("commandstats", "latencystats")]
_TITLES = {"cpu": "CPU"}


def text(core: Core, wanted: list[str]) -> bytes:
    """The sections ``wanted`` (``default``, ``all``, ``everything`` and none mean several), in their usual order."""
    names: set[str] = set()
    for word in wanted or ["default"]:
        if word in ("all", "everything"):
            names |= set(_SECTIONS) - ({"modules"} if word == "all" else set())
        elif word == "default":
            names |= set(_BY_DEFAULT)
        else:
            names.add(word)
    facts: dict[str, Any] = core.facts["process"]() if "process" in core.facts else {}
    blocks = [
        "".join([f"# {_TITLES.get(name, name.capitalize())}\r\n", *(f"{key}:{value}\r\n" for key, value in lines)])
        for name, lines in ((name, make(core, facts)) for name, make in _SECTIONS.items() if name in names)
    ]
    return "\r\n".join(blocks).encode()
