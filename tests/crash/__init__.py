"""An engine in a process that is killed while it writes: its restored data is compared with a model.

``make crash`` kills it three hundred times.
"""
