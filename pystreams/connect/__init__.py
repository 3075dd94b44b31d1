"""Connections of the command line: which server is meant, by URL, profile or environment, and the way to it.

Owns the file of profiles. The addresses, logins and retries are the connector's (`spark_streams.config`,
`spark_streams.client`). Knows no stream and no command.
"""
