"""Values and encodings of the protocol, shared by the engine, the connector and the command line.

This package imports no other package of the distribution, does no I/O and reads no clock. The exception is `bootstrap`,
a program that starts a process of this installation. This file imports no module, so a process loads only the modules
that it needs.
"""
