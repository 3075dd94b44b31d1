"""Disks that fail, and power that ends at any step: the engine's durability with faults put in.

disk     a layer under the engine's file calls, which fail or stop where the test says; what the loss of power leaves
engines  an engine without sockets on such a disk, with threads that work when they are told to
"""
