"""Table of metrics: name, type, help and labels of each. Only metrics of this table are exposed.

Metrics of Redis itself have the same names as in redis_exporter, so that its Grafana dashboard and alerts work; fields
of INFO that these do not show are left to redis_exporter. Other names begin with `pystreams_`. To add a field of INFO,
add a line to `_INFO_NAMES`. Measures of streams and groups are in `pystreams.measures`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from pystreams import measures
from pystreams.measures import View


@dataclass(frozen=True)
class Metric:
    """A metric. A counter's name ends with `_total`. `labels`: label names, in the order of a sample's values."""

    name: str
    help: str
    labels: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The type, in Prometheus's terms."""
        return "counter" if self.name.endswith("_total") else "gauge"


class Sample(NamedTuple):
    """One value. `node`: the server of a cluster that the value describes; empty for a single server."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()
    node: str = ""


_INFO_NAMES = """
uptime_in_seconds uptime_in_seconds
connected_clients connected_clients
blocked_clients blocked_clients
pubsub_clients pubsub_clients
watching_clients watching_clients
maxclients max_clients
used_memory memory_used_bytes
used_memory_rss memory_used_rss_bytes
used_memory_peak memory_used_peak_bytes
used_memory_dataset memory_used_dataset_bytes
maxmemory memory_max_bytes
total_system_memory total_system_memory_bytes
mem_fragmentation_ratio mem_fragmentation_ratio
mem_clients_slaves mem_clients_slaves
mem_clients_normal mem_clients_normal
loading loading_dump_file
rdb_changes_since_last_save rdb_changes_since_last_save
rdb_bgsave_in_progress rdb_bgsave_in_progress
rdb_last_save_time rdb_last_save_timestamp_seconds
rdb_last_bgsave_status rdb_last_bgsave_status
rdb_last_bgsave_time_sec rdb_last_bgsave_duration_sec
aof_enabled aof_enabled
aof_rewrite_in_progress aof_rewrite_in_progress
aof_last_rewrite_time_sec aof_last_rewrite_duration_sec
aof_current_size aof_current_size_bytes
aof_base_size aof_base_size_bytes
aof_delayed_fsync aof_delayed_fsync
aof_last_bgrewrite_status aof_last_bgrewrite_status
aof_last_write_status aof_last_write_status
pubsub_channels pubsub_channels
pubsub_patterns pubsub_patterns
latest_fork_usec latest_fork_usec
connected_slaves connected_slaves
repl_backlog_size replication_backlog_bytes
repl_backlog_active repl_backlog_is_active
repl_backlog_histlen repl_backlog_history_bytes
master_repl_offset master_repl_offset
slave_priority slave_priority
sync_full replica_resyncs_full
sync_partial_ok replica_partial_resync_accepted
sync_partial_err replica_partial_resync_denied
total_connections_received connections_received_total
total_commands_processed commands_processed_total
rejected_connections rejected_connections_total
total_net_input_bytes net_input_bytes_total
total_net_output_bytes net_output_bytes_total
total_net_repl_input_bytes net_repl_input_bytes_total
total_net_repl_output_bytes net_repl_output_bytes_total
expired_keys expired_keys_total
evicted_keys evicted_keys_total
evicted_clients evicted_clients_total
keyspace_hits keyspace_hits_total
keyspace_misses keyspace_misses_total
used_cpu_sys cpu_sys_seconds_total
used_cpu_user cpu_user_seconds_total
total_error_replies total_error_replies
acl_access_denied_auth acl_access_denied_auth_total
acl_access_denied_cmd acl_access_denied_cmd_total
acl_access_denied_key acl_access_denied_key_total
acl_access_denied_channel acl_access_denied_channel_total
"""
#: Metrics of fields of INFO that are exposed unchanged.
OF_INFO: dict[str, Metric] = {
    field: Metric(f"redis_{name}", f"{field} of INFO.") for field, name in map(str.split, _INFO_NAMES.split("\n")[1:-1])
}

UP = Metric("redis_up", "Whether the server answered.")
INSTANCE = Metric(
    "redis_instance_info",
    "Always 1; the labels describe the server.",
    (
        "role",
        "redis_version",
        "redis_build_id",
        "redis_mode",
        "os",
        "maxmemory_policy",
        "tcp_port",
        "run_id",
        "process_id",
    ),
)
START_TIME = Metric("redis_start_time_seconds", "Start time of the server, in seconds since 1970.")

_CMD = ("cmd",)
COMMANDS = Metric("redis_commands_total", "Calls of each command.", _CMD)
COMMAND_SECONDS = Metric("redis_commands_duration_seconds_total", "Time spent in each command.", _CMD)
COMMANDS_REJECTED = Metric("redis_commands_rejected_calls_total", "Calls refused before they were executed.", _CMD)
COMMANDS_FAILED = Metric("redis_commands_failed_calls_total", "Calls that ended with an error.", _CMD)
ERRORS = Metric("redis_errors_total", "Error replies, by their first word.", ("err",))

_DB = ("db",)
DB_KEYS = Metric("redis_db_keys", "Keys in each database.", _DB)
DB_KEYS_EXPIRING = Metric("redis_db_keys_expiring", "Keys that have a time to live.", _DB)
DB_TTL = Metric("redis_db_avg_ttl_seconds", "Average time to live, if the server reports it.", _DB)

SLOWLOG_LENGTH = Metric("redis_slowlog_length", "Entries in the slow log.")
SLOWLOG_LAST = Metric("redis_slowlog_last_id", "ID of the last entry of the slow log.")
SLOWEST_LAST = Metric("redis_last_slow_execution_duration_seconds", "Duration of the last slow command.")

_REPLICA = ("slave_ip", "slave_port", "slave_state")
REPLICA_OFFSET = Metric(
    "redis_connected_slave_offset_bytes", "Replication offset that each replica has acknowledged.", _REPLICA
)
REPLICA_LAG = Metric(
    "redis_connected_slave_lag_seconds", "Seconds since each replica's last acknowledgement.", _REPLICA
)
_MASTER = ("master_host", "master_port")
REPLICA_INFO = Metric(
    "redis_slave_info", "Always 1; the labels describe a replica and its master.", (*_MASTER, "read_only")
)
MASTER_UP = Metric("redis_master_link_up", "Whether a replica's link to its master is up.", _MASTER)
MASTER_IO = Metric("redis_master_last_io_seconds_ago", "Seconds since the master last sent data.", _MASTER)
MASTER_SYNC = Metric(
    "redis_master_sync_in_progress", "Whether a full synchronisation from the master is in progress.", _MASTER
)
OWN_OFFSET = Metric("redis_slave_repl_offset", "Replication offset of a replica.", _MASTER)

OF_SERVER = (
    *(UP, INSTANCE, START_TIME, *OF_INFO.values()),
    *(COMMANDS, COMMAND_SECONDS, COMMANDS_REJECTED, COMMANDS_FAILED, ERRORS),
    *(DB_KEYS, DB_KEYS_EXPIRING, DB_TTL, SLOWLOG_LENGTH, SLOWLOG_LAST, SLOWEST_LAST),
    *(REPLICA_OFFSET, REPLICA_LAG, REPLICA_INFO, MASTER_UP, MASTER_IO, MASTER_SYNC, OWN_OFFSET),
)

_STREAM = ("db", "stream")


def _of(table: View[Any], labels: tuple[str, ...]) -> dict[str, Metric]:
    """Return the metrics of a table of measures, by name."""
    return {name: Metric(name, text, labels) for each in table for name, text in each.metrics}


OF_STREAMS = {
    **_of(measures.STREAM, _STREAM),
    **_of(measures.GROUP, (*_STREAM, "group")),
    **_of(measures.CONSUMER, (*_STREAM, "group", "consumer")),
}
OF_QUERIES = _of(measures.QUERY, ("query", "id"))

SCRAPES = Metric("redis_exporter_scrapes_total", "Number of scrapes.")
SCRAPE_SECONDS = Metric("redis_exporter_last_scrape_duration_seconds", "Duration of the last scrape.")
SCRAPE_ERROR = Metric(
    "redis_exporter_last_scrape_error", "Whether a part of the last scrape failed. Label err: the error's ID.", ("err",)
)
STREAMS_SHOWN = Metric("pystreams_exporter_streams", "Streams that the last scrape examined.")
STREAMS_MORE = Metric(
    "pystreams_exporter_streams_left_out",
    "Whether streams were omitted because of a limit (number, time) or a missing permission.",
)

OF_EXPORTER = (SCRAPES, SCRAPE_SECONDS, SCRAPE_ERROR, STREAMS_SHOWN, STREAMS_MORE)

#: All metrics by name, in the order of the exposition.
METRICS: dict[str, Metric] = {
    metric.name: metric for metric in (*OF_SERVER, *OF_STREAMS.values(), *OF_QUERIES.values(), *OF_EXPORTER)
}
