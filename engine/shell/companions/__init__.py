"""Companions: processes that the engine starts beside itself and keeps alive, such as the exporter of metrics.

Owns when they run, what they are told, and their end with the engine's. Starts them from where the engine is installed;
imports nothing of theirs, and knows no more of them than a line of the table. May import durability's state machine,
the log lines and the settings.
"""
