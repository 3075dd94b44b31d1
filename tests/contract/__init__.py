"""Contract tests: commands and their replies, with the same cases on the core, the engine over TCP and a real Redis.

Ordinary uses of the commands on streams, strings, hashes and keys are left to ``tests.differential``, which compares
random commands with a real Redis. The cases here are those that it draws rarely or never: exact bytes, clocks, large
data, replies of other releases, and errors.

The folders are those of the engine's commands: ``streams`` and ``groups``, ``data``, ``server``.
``tests.harness`` provides the servers; ``transcripts`` runs tables of commands with their replies.
"""
