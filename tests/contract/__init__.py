"""Contract tests: commands and their replies, with the same cases on the core, the engine over TCP and a real Redis.

The folders are those of the engine's commands: ``streams`` and ``groups``, ``data``, ``scripts``, ``server``.
``tests.harness`` provides the servers; ``transcripts`` runs tables of commands with their replies.
"""
