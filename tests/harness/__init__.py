"""One suite for every server: the engine's core in process, the engine over TCP, a real redis-server; RESP2 and RESP3.

replies   expected replies, and their comparison with actual ones
clients   connections: their interface, and the one over a socket
kinds     the servers that a test runs on, and those in processes
core      the engine's core in this process, with a clock that the test moves
marks     versions that a test is for
stored    the core in this process with its streams on disk

Other tests use the core through three more:

replay     the effects of a core bring an empty one to the same state; a core's state as plain data
storing    cold segments are written on request
injection  handlers that raise unexpected errors

The fixture ``server`` (``tests/conftest.py``) yields one of the kinds.
"""
