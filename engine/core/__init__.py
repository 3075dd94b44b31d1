"""The functional core: commands on data, with time as an argument.

Nothing in this package does I/O, reads a clock, draws a random number or logs:
``tests/architecture/test_purity.py`` checks its imports. The way in is :class:`engine.core.dispatch.Core`; what it asks
of the process around it stands in :mod:`engine.core.environment`.
"""
