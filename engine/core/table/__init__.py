"""The command table: each command's declaration, and the language in which its arguments are described.

It may import the protocol's words. It never knows what a handler is given, nor who calls a command.
"""
