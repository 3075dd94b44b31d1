"""Bundled server: Redis's protocol, with complete support for streams and consumer groups.

``engine.core`` is the model (pure: no I/O, clock or randomness), ``engine.wire`` converts between bytes and values,
``engine.shell`` contains the event loop, the sockets and the clock. ``python -m engine`` starts the server.
"""
