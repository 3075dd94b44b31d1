"""RESP, the protocol of Redis: bytes to commands (``parser``; ``bulk``, ``alike`` for runs of XADD), replies to bytes.

It imports the types of replies and runs (:mod:`engine.core.protocol`) and error texts. It never knows sockets, which
commands exist, or what they do.
"""
