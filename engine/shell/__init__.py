"""The imperative shell: event loop, sockets, files, signals, the clock. It drives :class:`engine.core.dispatch.Core`.

It may import all of the engine. It never knows what a command does to the data. It runs on Linux and macOS.
"""

import sys

if sys.platform == "win32":
    sys.exit("engine: Windows is not supported, Linux and macOS are; in the Windows Subsystem for Linux it runs too")
