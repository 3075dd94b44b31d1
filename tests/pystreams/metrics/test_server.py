"""Samples from INFO and the slow log, computed from texts without a server."""

from __future__ import annotations

import pytest

from pystreams.metrics import collector, table
from streamclient.reply_maps import info_lines
from tests.pystreams.metrics.exposed import exposed, value

_INFO = b"""# Server\r
redis_version:8.6.3\r
redis_mode:standalone\r
tcp_port:6379\r
run_id:abc\r
uptime_in_seconds:100\r
server_time_usec:1700000000000000\r
# Memory\r
used_memory:1048576\r
used_memory_human:1.00M\r
maxmemory_policy:noeviction\r
# Persistence\r
rdb_last_bgsave_status:err\r
aof_last_write_status:ok\r
# Replication\r
role:master\r
slave0:ip=10.0.0.1,port=6380,state=online,offset=77,lag=1\r
# Commandstats\r
cmdstat_xinfo|stream:calls=4,usec=2000000,usec_per_call=0.00,rejected_calls=1,failed_calls=2\r
# Errorstats\r
errorstat_ERR:count=3\r
# Keyspace\r
db0:keys=5,expires=2,avg_ttl=1500,subexpiry=0\r
"""
_REPLICA = (
    b"role:slave\r\nmaster_host:h\r\nmaster_port:6379\r\nmaster_link_status:down\r\nslave_repl_offset:5\r\n"
    b"slave_read_only:1\r\nmaster_last_io_seconds_ago:-1\r\nmaster_sync_in_progress:0\r\n"
)


@pytest.mark.parametrize("info", [_INFO, _INFO.replace(b"redis_mode", b"server_mode")], ids=["Redis", "Valkey 9"])
def test_the_fields_of_info_are_named_as_in_redis_exporter(info: bytes) -> None:
    """Numbers, `ok` and `err` become values. Other texts are left out, or are labels of `redis_instance_info`."""
    found = exposed(list(collector.of_info(info_lines(info))))
    assert value(found, "redis_uptime_in_seconds") == 100
    assert value(found, "redis_start_time_seconds") == 1_699_999_900
    assert value(found, "redis_memory_used_bytes") == 1 << 20
    assert value(found, "redis_rdb_last_bgsave_status") == 0
    assert value(found, "redis_aof_last_write_status") == 1
    assert value(found, "redis_commands_total", cmd="xinfo|stream") == 4
    assert value(found, "redis_commands_duration_seconds_total", cmd="xinfo|stream") == 2
    assert value(found, "redis_commands_rejected_calls_total", cmd="xinfo|stream") == 1
    assert value(found, "redis_errors_total", err="ERR") == 3
    assert value(found, "redis_db_keys", db="db0") == 5
    assert value(found, "redis_db_avg_ttl_seconds", db="db0") == 1.5
    replica = {"slave_ip": "10.0.0.1", "slave_port": "6380", "slave_state": "online"}
    assert value(found, "redis_connected_slave_offset_bytes", **replica) == 77
    (instance,) = [dict(labels) for name, labels in found if name == "redis_instance_info"]
    assert (instance["role"], instance["redis_mode"], instance["os"]) == ("master", "standalone", "")
    assert instance["redis_version"] == "8.6.3"


def test_the_link_metrics_of_a_replica() -> None:
    """The link metrics of a replica have labels for the master and, in a cluster, for the node."""
    found = exposed(list(collector.of_info(info_lines(_REPLICA), "n:1")))
    labels = {"master_host": "h", "master_port": "6379", "node": "n:1"}
    assert value(found, "redis_master_link_up", **labels) == 0
    assert value(found, "redis_slave_repl_offset", **labels) == 5
    assert value(found, "redis_slave_info", read_only="1", **labels) == 1


@pytest.mark.parametrize(
    ("length", "last", "values"),
    [
        (2, [[7, 0, 1500, [b"X"]]], [2, 7, 0.0015]),
        (0, [], [0]),
        (Exception("NOPERM"), Exception("NOPERM"), []),
    ],
)
def test_the_slow_log(length: object, last: object, values: list[float]) -> None:
    assert [sample.value for sample in collector.of_slow_log(length, last)] == values


def test_names_are_valid_and_unique() -> None:
    """Each metric has a unique and valid name, and exactly the counters end in `_total`."""
    rows = [*table.OF_SERVER, *table.OF_STREAMS.values(), *table.OF_QUERIES.values(), *table.OF_EXPORTER]
    assert len(table.METRICS) == len(rows)
    for name, metric in table.METRICS.items():
        assert name.replace("_", "a").isalnum(), name
        assert (metric.kind == "counter") == name.endswith("_total")
        assert metric.help.endswith((".", "/"))
