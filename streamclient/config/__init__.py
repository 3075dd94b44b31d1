"""Options of a connection: their declaration and parsing, and the server's address.

May import the errors and stream IDs. Opens no connections.
"""
