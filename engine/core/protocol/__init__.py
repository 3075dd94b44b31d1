"""The protocol's types: replies, arguments, entry IDs, and runs of XADDs as one value.

This package may import only ``engine.text`` and ``streamwire``. It does not depend on keys, streams or clients.
"""
