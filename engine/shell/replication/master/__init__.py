"""Master role: the replicas, the stream sent to them, and their acknowledgements.

It may import the core, durability, the history, the settings and `engine.shell.observation`. It does not depend on how
a master is followed, or how sockets are served: a replica's connection is an
`engine.shell.replication.master.replica.Peer`.
"""
