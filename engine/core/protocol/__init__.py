"""The protocol's words: what a command answers, its arguments, IDs of entries, a run of XADDs as one value.

It may import the texts alone. It never knows a key, a stream or a client.
"""
