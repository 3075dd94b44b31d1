"""Replication: replicas that get what happens here, and the master that this server follows.

It owns the history (the stream of commands that replicas get, with its offsets), full and partial synchronisation, and
who has acknowledged what. It may import the core, durability (the formats of files), the settings and the observation
room. It never knows how sockets are served: it is handed what it needs of them.
"""
