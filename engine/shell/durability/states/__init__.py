"""State machines of background work: one module per machine, with its diagram and its transition table.

It imports nothing from the engine, and does not touch files, threads or the clock: the owner of a machine does the
work, and fires the events.
"""
