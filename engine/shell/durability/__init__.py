"""Durability: loads the data when the engine starts and keeps on the disk what happens, in a log and in snapshots.

It may import the core, the wire format, the settings and the observation room. It never knows sockets or connections:
it is handed what it needs of them (:class:`~engine.shell.durability.driver.Clients`).
"""
