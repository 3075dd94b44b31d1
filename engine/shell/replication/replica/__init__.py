"""Replica role: the link to the master, full synchronisation, and applying the master's stream.

It may import the core, durability, the history, the settings, TLS contexts and `engine.shell.observation`. It does not
depend on this server's own replicas, or on how clients are served.
"""
