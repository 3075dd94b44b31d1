"""Connections of the command line: the chosen server, by URL, profile or environment, and a connection to it.

Owns the profile file. Addresses, logins and retries belong to `streamclient`. Does not depend on streams or
commands.
"""
