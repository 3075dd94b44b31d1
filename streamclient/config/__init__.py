"""Options of a connection: how an option is declared and parsed, and the address that the options give.

May import the errors and stream IDs. Opens nothing.
"""
