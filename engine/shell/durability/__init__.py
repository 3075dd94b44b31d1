"""Durability: loads the data at startup, and keeps changes on disk in a log and in snapshots.

It may import the core, the wire format, the settings, `engine.shell.observation` and `engine.shell.housekeeping`. It
does not depend on sockets or connections: it accesses the clients' replies through a protocol
(`engine.shell.durability.driver.Clients`).
"""
