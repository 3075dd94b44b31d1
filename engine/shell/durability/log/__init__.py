"""Append-only log: writing, files, replay, rewriting, switching it on and off, waiting for it.

It may import the formats, the states and the background work. It does not depend on the files that SAVE writes, nor
decide who may write when: that is the task of `engine.shell.durability.disk`.
"""
