"""Consumer groups: position, lag and its cause, pending entries, and changes to them.

May import the modules about streams. Does not depend on how results are shown.
"""
