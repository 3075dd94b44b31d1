"""Output: tables for people, JSON for programs, and progress and notes on standard error.

Owns standard output and standard error, colours, and the case that the reader of a pipe is gone. Does not depend on
servers or commands.
"""
