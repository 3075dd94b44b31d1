"""An engine in a process that is killed while it writes: what it comes back with is compared with a model.

``make crash`` kills it three hundred times.
"""
