"""Commands about the server and its clients: connections, users, transactions, configuration, persistence, replication.

This package may import ``engine.core.clients`` and ``engine.core.environment``. Saving, following a master and shutting
down use the interfaces of ``engine.core.environment``. The package does not depend on files, sockets or processes.
"""

from engine.core.commands.server import (
    access,
    client,
    command_info,
    config,
    connection,
    debug,
    info,
    memory,
    monitor_slowlog,
    persistence,
    process,
    pubsub,
    replication,
    standalone,
    transactions,
)

__all__ = [
    "access",
    "client",
    "command_info",
    "config",
    "connection",
    "debug",
    "info",
    "memory",
    "monitor_slowlog",
    "persistence",
    "process",
    "pubsub",
    "replication",
    "standalone",
    "transactions",
]
