"""The client: talks to any Redis, Valkey or engine, a single server, Sentinels or a cluster.

Owns everything between a question about streams and a server's reply: options and addresses of a connection, login,
TLS, routing, retries, classification of refusals, the replies' codec, the states of streams and groups, ranges of
entries and their delivery. May import the floor. Does not depend on Spark, a command line, or its callers' purposes.
"""
