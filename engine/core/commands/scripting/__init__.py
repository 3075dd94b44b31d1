"""Commands that run Lua, and that manage scripts and libraries of functions.

They ask the context for both: :mod:`engine.core.scripting` does the work. They never know the interpreter.
"""

from engine.core.commands.scripting import functions, scripts

__all__ = ["functions", "scripts"]
