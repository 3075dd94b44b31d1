"""Commands about the server and its clients."""

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
