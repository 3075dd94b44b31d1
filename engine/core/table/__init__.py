"""The command table: how commands are declared, what is known of each, and the language that describes arguments.

It may import the protocol's words. It never knows what a handler is given, nor who calls a command.
"""
