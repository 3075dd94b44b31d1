"""Replication: the replicas of this server, and the master that it follows.

It owns the history (the stream of commands sent to replicas, with its offsets), full and partial synchronisation, and
acknowledgements. A master is read in `history`, `replicas` and `master`; a replica in `link`, `intake` and `replica`;
`failover` exchanges the roles, and `node` answers the core. It may import the core, durability, the settings, TLS
contexts and `engine.shell.observation`. It does not depend on how sockets are served: connections are passed in.
"""
