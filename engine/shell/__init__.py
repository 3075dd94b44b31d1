"""The imperative shell: event loop, sockets, signals, the clock. It drives :class:`engine.core.dispatch.Core`."""
