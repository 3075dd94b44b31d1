"""The user's options: declared once, then parsed into frozen dataclasses, checked and documented.

Owns the names, defaults and meanings of the options, positions, and time zones. May import the client's options, the
errors and stream IDs. Opens no connections, and does not depend on a server's state or a DataFrame.
"""
