"""What readers and planners ask of a server: stream and group states, ranges of entries, delivery, acknowledgement.

Owns the translation of those questions into commands, in two ways: those of any Redis, and the engine's own. May import
the client, the codec and the errors. The room `entries` reads. Knows nothing of Spark, options, offsets or schemas.
"""
