"""The append-only log: its writer, its files, reading it back, rewriting it, switching it on and off, waiting for it.

It may import the formats, the states and the work in the background. It never knows the files that SAVE
writes, nor who may write when: that is decided by :mod:`engine.shell.durability.disk`.
"""
