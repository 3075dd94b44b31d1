"""The client: talks to any Redis, Valkey or engine, a single server, Sentinels or a cluster.

Owns everything between a question about streams and a server's reply. That includes options, addresses, login, TLS,
routing, retries and the classification of refusals. It also includes the codec of replies, the states of streams and
groups, and ranges of entries with their delivery. May import `streamwire`. Does not depend on Spark, a command line,
or its callers' purposes.
"""
