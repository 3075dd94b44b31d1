"""Connections to servers: sockets, routing in a cluster, retries, and the raw replies that the codec decodes.

Owns everything between a command and its reply: login, TLS, redirections, reconnection, pipelines, and changes that
hold only if nobody else has changed the keys. May import the configuration's addresses, the codec's replies and the
errors. Knows nothing of streams, groups, Spark or columns.
"""
