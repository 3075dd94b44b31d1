"""The codec: a reply's bytes to a page of Arrow columns, and Arrow columns to XADD commands.

Owns the vectorised ways and the slow twins (`*_reference`) that define their results. Imports nothing of the connector.
Never knows sockets, Spark, options, or what a field's text means.
"""
