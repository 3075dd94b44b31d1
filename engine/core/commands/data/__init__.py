"""Commands of strings, hashes, keys and expiry.

This package may import the command table, the values of the keyspace and their formats. Only DUMP and RESTORE depend on
streams.
"""

from engine.core.commands.data import dump, expiry, hashes, keys, strings

__all__ = ["dump", "expiry", "hashes", "keys", "strings"]
