"""Strings: whole values, parts of them, numbers, and conditional changes.

It may import what the enclosing room may. It does not depend on streams.
"""

from engine.core.commands.data.strings import conditional, counters, parts, values

__all__ = ["conditional", "counters", "parts", "values"]
