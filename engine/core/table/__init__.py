"""The command table: declarations of commands, and their properties.

This package may import the protocol's types. It does not depend on the context of handlers, or on the callers of
commands.
"""
