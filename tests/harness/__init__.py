"""One suite for every server: the engine's core in process, the engine over TCP, a real redis-server; RESP2 and RESP3.

replies   what a test expects, and how it is compared with what came
clients   connections: what each can do, and the one over a socket
kinds     the servers that a test is run on, and those in processes
core      the engine's core in this process, with a clock that the test moves
marks     what a test says about the versions that it is for
stored    the core in this process with its streams on the disk

Other tests use the core through three more:

replay     the effects of a core bring an empty one to the same state; a core's state as plain data
storing    cold segments are written now, not by and by
injection  a handler that raises where nobody foresaw it

The fixture ``server`` (``tests/conftest.py``) gives one of the kinds.
"""
