"""The embedded engine: a server process of one driver, started at first use and stopped when the driver ends.

Owns the identification of the driver process, and the engine's start, states and end. May import the configuration's
addresses and the errors. Does not depend on the engine's code: it starts the engine as a process, and reads the line in
which the engine reports that it is ready.
"""
