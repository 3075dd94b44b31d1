"""Companions: processes that the engine starts alongside itself and keeps alive, such as the metrics exporter.

This package starts companions from the engine's installation, passes their settings, and stops them, at the latest
when the engine exits. It imports none of their code: each companion is described by a row of `table.py`. It may import
the log lines and the settings.
"""
