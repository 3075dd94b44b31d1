"""Samples from INFO, computed from texts without a server."""

from __future__ import annotations

from pystreams import metrics
from streamclient.reply_maps import info_lines
from tests.pystreams.metrics.exposed import exposed, value

_INFO = b"""# Server\r
redis_version:8.6.3\r
uptime_in_seconds:100\r
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
"""
_REPLICA = b"role:slave\r\nmaster_host:h\r\nmaster_port:6379\r\nmaster_link_status:down\r\n"


def test_the_fields_of_info_are_named_as_in_redis_exporter() -> None:
    """Numbers, `ok` and `err` become values. Other texts are left out, or are labels of `redis_instance_info`."""
    found = exposed(list(metrics.of_info(info_lines(_INFO))))
    assert value(found, "redis_uptime_in_seconds") == 100
    assert value(found, "redis_memory_used_bytes") == 1 << 20
    assert value(found, "redis_rdb_last_bgsave_status") == 0
    assert value(found, "redis_aof_last_write_status") == 1
    assert value(found, "redis_commands_total", cmd="xinfo|stream") == 4
    assert value(found, "redis_commands_duration_seconds_total", cmd="xinfo|stream") == 2
    assert value(found, "redis_errors_total", err="ERR") == 3
    replica = {"slave_ip": "10.0.0.1", "slave_port": "6380", "slave_state": "online"}
    assert value(found, "redis_connected_slave_lag_seconds", **replica) == 1
    (instance,) = [dict(labels) for name, labels in found if name == "redis_instance_info"]
    assert instance == {"role": "master", "redis_version": "8.6.3"}


def test_the_link_of_a_replica() -> None:
    """The link of a replica has labels for the master and, in a cluster, for the node."""
    found = exposed(list(metrics.of_info(info_lines(_REPLICA), "n:1")))
    labels = {"master_host": "h", "master_port": "6379", "node": "n:1"}
    assert value(found, "redis_master_link_up", **labels) == 0


def test_names_are_valid_and_unique() -> None:
    """Each metric has a unique and valid name, and exactly the counters end in `_total`."""
    rows = [*metrics.OF_SERVER, *metrics.OF_STREAMS.values(), *metrics.OF_QUERIES.values(), *metrics.OF_EXPORTER]
    assert len(metrics.METRICS) == len(rows)
    for name, metric in metrics.METRICS.items():
        assert name.replace("_", "a").isalnum(), name
        assert (metric.kind == "counter") == name.endswith("_total")
        assert metric.help.endswith((".", "/"))
