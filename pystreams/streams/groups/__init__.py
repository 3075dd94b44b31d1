"""Consumer groups: position, lag, status, pending entries, and changes to them.

May import the modules about streams. Does not depend on how results are shown.
"""
