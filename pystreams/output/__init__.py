"""Output: results as tables, JSON, JSON lines or CSV; progress and notes next to them.

Owns standard output and standard error, their forms and colours, and the end of a pipe. Knows no server and no command.
"""
