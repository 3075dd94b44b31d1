"""One suite for every server: the engine's core in process, the engine over TCP, a real redis-server; RESP2 and RESP3.

replies   what a test expects, and how it is compared with what came
clients   connections: what each can do, and the one over a socket
kinds     the servers that a test is run on, and those in processes
core      the engine's core in this process, with a clock that the test moves
releases  releases of Redis and Valkey
marks     what a test says about the versions that it is for

The fixture ``server`` (``tests/conftest.py``) gives one of the kinds.
"""
