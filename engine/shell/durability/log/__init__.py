"""Append-only log: writing, files, replay, rewriting, switching on and off, waiting for syncs.

It may import the formats, the states and the background work. It does not depend on the files that SAVE writes.
`engine.shell.durability.disk` decides which file is written when.
"""
