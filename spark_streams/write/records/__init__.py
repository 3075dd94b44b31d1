"""What servers remember of a batch: fences count a task's rows, records say who may write, ledgers know all streams.

Owns the names and forms of these keys, and what follows from what they say. May import `rows` and client. Knows nothing
of how rows are sent.
"""
