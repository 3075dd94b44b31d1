"""Commands and the replies that they must give: the same cases on the core, on the engine over TCP and on a real Redis.

The rooms are those of the engine's commands: ``streams`` and ``groups``, ``data``, ``scripts``, ``server``. How a test
gets its server stands in ``tests.harness``; ``transcripts`` plays dialogues of commands and replies.
"""
