"""Parts that both ways of consuming share: streams, offsets, planning, losses, leases and change detection.

Offsets, planning and losses are pure. May import config and the client. Does not depend on Spark's calls, or on whether
tasks read ranges or from a consumer group.
"""
