"""Connections of the command line: the chosen server, by URL, profile or environment, and a connection to it.

Owns the file of profiles. Addresses, logins and retries belong to `streamclient`. Does not depend on streams or
commands.
"""
