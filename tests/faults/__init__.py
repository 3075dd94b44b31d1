"""Fault injection: failing disks, and power failures at any step, under the engine's durability.

disk     a layer under the engine's file calls, which fails or stops as the test says; the state after a power failure
engines  an engine without sockets on such a disk, with threads that work on request
"""
