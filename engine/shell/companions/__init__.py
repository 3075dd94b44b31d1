"""Companions: processes that the engine starts alongside itself and keeps alive, such as the metrics exporter.

Owns their start, their settings and their end, at the latest with the engine's. Starts them from the engine's
installation and imports nothing of theirs; a row of the table is all it depends on. May import durability's state
machine, the log lines and the settings.
"""
