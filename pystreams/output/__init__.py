"""Output: tables for people, JSON for programs, progress and notes beside them.

Owns what goes to standard output and standard error, colours, and what happens when the reader of a pipe is gone. Knows
no server and no command.
"""
