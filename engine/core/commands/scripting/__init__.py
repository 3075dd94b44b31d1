"""Commands that run Lua, and that manage scripts and libraries of functions.

The commands reach ``engine.core.scripting``, which does the work, through the context. They do not import the
interpreter.
"""

from engine.core.commands.scripting import functions, scripts

__all__ = ["functions", "scripts"]
