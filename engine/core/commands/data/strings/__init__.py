"""Strings: whole values, numbers, and changes in place.

This package has the import rules of ``engine.core.commands.data``. It does not depend on streams.
"""

from engine.core.commands.data.strings import counters, parts, values

__all__ = ["counters", "parts", "values"]
