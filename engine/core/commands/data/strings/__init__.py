"""Strings: whole values, parts of them, numbers, and conditional changes.

This package has the import rules of ``engine.core.commands.data``. It does not depend on streams.
"""

from engine.core.commands.data.strings import conditional, counters, parts, values

__all__ = ["conditional", "counters", "parts", "values"]
