"""What every query has, whichever way it consumes: streams, offsets, planning, losses, a lease, changes to look for.

Offsets, planning and losses are pure. May import config, server and client. Knows nothing of Spark's calls, nor whether
a range or a consumer group says what a task reads.
"""
