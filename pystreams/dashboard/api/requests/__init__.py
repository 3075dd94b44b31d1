"""A request: its parameters, its way to the server, and an answer that goes on for long.

Owns how many connections a session has. Knows no question: those are the modules of the room around it.
"""
