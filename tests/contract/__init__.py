"""Contract tests: commands and their replies, with the same cases on the core, on the engine over TCP and on a real
Redis.

The folders are those of the engine's commands: ``streams`` and ``groups``, ``data``, ``scripts``, ``server``.
``tests.harness`` provides the servers; ``transcripts`` plays dialogues of commands and replies.
"""
