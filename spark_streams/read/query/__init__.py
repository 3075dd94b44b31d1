"""Code shared by consume=range and consume=shared: streams, offsets, planning, losses, leases, partitions and change
detection.

`offsets`, `planning` and `loss` send no commands. May import columns, embedded, config and the client. Does not depend
on Spark's calls.
"""
