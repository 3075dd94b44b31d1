"""Values and encodings of the protocol, shared by the engine, the connector and the command line.

Imports no other package of the distribution, does no I/O and reads no clock, except `bootstrap`, a program that starts
a process of this installation. The package imports none of its modules, so a process loads only those it needs.
"""
