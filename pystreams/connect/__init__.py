"""Connections of the command line: the chosen server, by URL, profile or environment, and a connection to it.

This package reads the profile file. Addresses, logins and retries belong to `streamclient`. Nothing here depends on
streams or commands.
"""
