"""Output: results as tables, JSON, JSON lines or CSV, and progress, notes and errors.

This package handles standard output and standard error, formats and colours, and closed pipes. It does not depend on
servers or commands.
"""
