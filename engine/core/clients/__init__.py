"""State of clients in the core: sessions, blocked commands, users, channels, monitors, and command timings.

This package may import the command table, the keyspace and lower layers. It does not depend on sockets or handlers.
"""
