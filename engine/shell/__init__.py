"""Imperative shell: event loop, sockets, files, signals, the clock. It drives `engine.core.dispatch.Core`.

It may import every package of the engine. It does not depend on what a command does to the data. It runs on Linux and
macOS.
"""

import sys

if sys.platform == "win32":
    sys.exit("engine: Windows is not supported, use Linux, macOS or the Windows Subsystem for Linux")
