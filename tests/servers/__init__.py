"""Servers for tests, each of which is stopped and removed at the end of its test, and their data as clients see it.

processes     the engine and a real redis-server, as processes: the names below, so a test says ``servers.engine()``
tiny_engine   an engine whose segments hold a few entries
topologies    a cluster, a master with a replica and Sentinels, TLS
sentinels     groups of replicating servers that are killed and restarted, and the Sentinels that watch them
certificates  certificates made with openssl
connection    a connection that returns replies as hiredis parses them
releases      releases of Redis and Valkey, and their differences
keyspaces     all keys of a server as plain data, to compare with another's
"""

from pystreams.testing.servers import Running, free_port, ready_line, stop, tied_to_us
from tests.servers.processes import engine, redis, redis_release, run_engine, sentinel

__all__ = [
    "Running",
    "engine",
    "free_port",
    "ready_line",
    "redis",
    "redis_release",
    "run_engine",
    "sentinel",
    "stop",
    "tied_to_us",
]
