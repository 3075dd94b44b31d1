"""Consumer groups: position, lag and its cause, pending entries, and changes to them.

It may import the questions about streams. It does not depend on how answers are shown.
"""
