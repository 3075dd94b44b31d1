"""The functional core: commands on data, with time as an argument.

Nothing in this package does I/O, reads a clock, draws a random number or logs:
``tests/architecture/test_source.py`` checks its imports. The entry point is ``engine.core.dispatch.Core``; the
core's interface to the surrounding process is in ``engine.core.environment``.
"""
