"""A server as a master: its replicas, what they are sent, what they have acknowledged.

It may import the core, the files' formats of durability, the settings and the observation room. It never knows how a
master is followed, nor how sockets are served: a replica's connection is a
:class:`~engine.shell.replication.master.replica.Peer`.
"""
