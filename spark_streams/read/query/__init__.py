"""Code shared by consume=range and consume=shared: streams, offsets, planning, losses, leases and change detection.

Offsets, planning and losses are pure. May import config and the client. Does not depend on Spark's calls, or on whether
tasks read ranges or from a consumer group.
"""
