"""Strings: values as a whole, parts of them, as numbers, and under conditions.

It may import what the room around it may, and knows nothing of streams.
"""

from engine.core.commands.data.strings import conditional, counters, parts, values

__all__ = ["conditional", "counters", "parts", "values"]
