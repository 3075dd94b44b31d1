"""Consumer groups: position, lag, status, pending entries, and changes to them.

This package may import the modules about streams. It does not depend on how results are shown.
"""
