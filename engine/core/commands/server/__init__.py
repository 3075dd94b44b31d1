"""Commands about the server and its clients: connections, users, transactions, configuration, persistence, replication.

They may import the rooms of clients and of the environment; saving, following a master and shutting down go through the
environment's protocols. They do not depend on files, sockets or processes.
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
