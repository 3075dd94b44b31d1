"""Requests of readers and planners to a server: stream and group states, ranges of entries, delivery, acknowledgement.

Owns the translation of these requests into commands: either commands of any Redis, or the engine's own commands. May
import the client, the codec and the errors. The package `entries` reads entries. Does not depend on Spark, options,
offsets or schemas.
"""
