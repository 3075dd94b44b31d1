"""The user's options: declared once, then parsed into frozen dataclasses, checked and documented.

Owns the options' names, kinds, defaults and meanings, positions, time zones, and the addresses of servers. May import
the errors and stream IDs. Opens no connections, and does not depend on a server's state or a DataFrame.
"""
