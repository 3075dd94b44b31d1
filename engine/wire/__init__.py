"""RESP, the protocol of Redis: bytes to commands, replies to bytes.

`parser` reads commands one by one; `bulk` reads runs of similar XADDs at once.
This package may import the types of replies and runs (`engine.core.protocol`) and error texts. It does not depend on
sockets or on the command table.
"""
