"""The floor under the engine, the connector and the command line: the protocol's values and forms, each once.

Imports nothing of ours, does no I/O and reads no clock. Every module is usable by itself, so that a process loads only
what it needs. `bootstrap` is the exception: a program that starts a process of this installation.
"""
