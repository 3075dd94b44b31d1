"""The protocol's types: replies, arguments, entry IDs, and runs of XADDs as one value.

It may import only the texts. It does not depend on keys, streams or clients.
"""
