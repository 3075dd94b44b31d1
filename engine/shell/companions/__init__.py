"""Companions: processes that the engine starts alongside itself and keeps alive, such as the metrics exporter.

It starts them from the engine's installation, passes their settings, and stops them, at the latest when the engine
exits. It does not import their code: it depends only on a row of the table. It may import durability's state machine,
the log lines and the settings.
"""
