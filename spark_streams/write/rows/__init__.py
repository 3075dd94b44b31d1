"""Rows as commands: record batches become XADDs for each stream, their digests, and the XTRIMs after them.

May import columns, the codec and config. Does not depend on transactions or on the records on servers.
"""
