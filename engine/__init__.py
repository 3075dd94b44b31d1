"""The bundled server: Redis's protocol, complete for streams and consumer groups.

``engine.core`` is the model (pure: no I/O, no clock, no chance), ``engine.wire`` the codec between bytes and values,
``engine.shell`` the event loop, the sockets and the clock. ``python -m engine`` starts it.
"""
