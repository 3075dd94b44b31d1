"""Databases: keys with their values and expiry, changes, clients blocked on keys, and images of all databases.

This package may import the streams and lower layers. It does not depend on commands, sessions, or the destination of
changes.
"""
