"""The embedded engine: one server process per driver, started when first needed, gone when the driver is gone.

Owns which process the driver is, the engine's start, its states and its end. May import the configuration's addresses
and the errors. Knows nothing of what the engine is made of: it starts a process and reads one line of its output.
"""
