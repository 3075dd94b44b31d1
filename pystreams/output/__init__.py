"""Output: results as tables, JSON, JSON lines or CSV, and progress, notes and errors.

Owns standard output and standard error, formats and colours, and the handling of closed pipes. Does not depend on
servers or commands.
"""
