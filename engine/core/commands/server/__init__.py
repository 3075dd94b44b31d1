"""Commands about the server and its clients: connections, users, transactions, configuration, persistence, replication.

This package may import ``engine.core.clients`` and ``engine.core.environment``. Saving, following a master and shutting
down use the interfaces of ``engine.core.environment``. The package does not depend on files, sockets or processes.
"""

from engine.core.commands.server import access, connection, monitoring, pubsub, replication, server, transactions

__all__ = ["access", "connection", "monitoring", "pubsub", "replication", "server", "transactions"]
