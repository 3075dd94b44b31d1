"""Questions of readers and planners to a server: stream and group states, ranges of entries, delivery, acknowledgement.

Owns the translation of these questions into commands: either those of any Redis, or the engine's own. May import the
client, the codec and the errors. The room `entries` reads entries. Does not depend on Spark, options, offsets or
schemas.
"""
