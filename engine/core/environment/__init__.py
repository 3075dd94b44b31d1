"""The environment of a running command: the context that handlers receive, and protocols for what is outside the core.

It owns ``Context``, the protocols ``Host`` (the process), ``Durability`` (the disk) and ``Replication`` (other servers)
with a null implementation of each, and the rules for unexpected errors. It may import the clients' room and lower
layers. It does not depend on commands, the dispatch, or the shell's implementations.
"""
