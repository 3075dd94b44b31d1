"""What surrounds a running command: the context that a handler sees, and the protocols for what is outside the core.

It owns :class:`Context`, :class:`Host` (the process), :class:`Durability` (the disk) and :class:`Replication` (other
servers), with an implementation of each protocol for a core that has none of them, and the rules for errors that nobody
foresaw. It may import the clients' room and
what is below it. It never knows a command, the dispatch, or how the shell does what it is asked for.
"""
