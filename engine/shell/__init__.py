"""The imperative shell: event loop, sockets, files, signals, the clock. It drives :class:`engine.core.dispatch.Core`.

It may import all of the engine. It never knows what a command does to the data.
"""
