"""Commands that run Lua, and that manage scripts and libraries of functions.

``engine.core.scripting`` does the work, through the context. They do not depend on the interpreter.
"""

from engine.core.commands.scripting import functions, scripts

__all__ = ["functions", "scripts"]
