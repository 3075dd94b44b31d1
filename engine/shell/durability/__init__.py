"""Durability: loads the data at startup, and keeps changes on disk in a log and in snapshots.

It may import the core, the wire format, the settings and the observation room. It does not depend on sockets or
connections: it receives what it needs of them through a protocol (`engine.shell.durability.driver.Clients`).
"""
