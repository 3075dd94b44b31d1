"""Append-only log: writing, files, replay, rewriting, switching on and off, waiting for syncs.

It may import the core, the settings, and the other packages of `engine.shell.durability`. It does not depend on the
files that SAVE writes. `engine.shell.durability.disk` decides when a file is written.
"""
