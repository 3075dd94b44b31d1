"""One Lua 5.1 interpreter with the sandbox in it, as Python's code uses it.

lupa is imported with the first one: a server that runs no scripts pays nothing for them. The memory of the interpreter
is limited while a script runs, and only then: what lupa allocates for Python while Lua is not in a protected call must
not fail, because Lua would end the process. So the limit is set by the script's first act (:meth:`limit`) and lifted
behind it, and a reply that is about to be handed over gets its room before (:meth:`make_room`).
"""

from __future__ import annotations

from typing import Any

from engine.core.protocol.replies import CommandError
from engine.core.scripting.calls import Calls
from engine.core.scripting.lua import PARTS, source
from engine.text.messages import scripting

#: The bytes that one interpreter may use, all scripts and libraries of functions together.
MEMORY_LIMIT = 1 << 30
_UNLIMITED = 1 << 50
#: Beyond this much in use everything is collected after a script.
_COLLECT_FROM = 64 << 20
#: For what is not measured in replies: the places that lupa keeps for objects.
_SLACK = 4096
#: More arguments go over as one table: Lua's stack has 8,000 places.
_MANY = 200
#: As many objects of Lua as one call can have are named ahead, so that naming them allocates nothing.
_NAMED_AHEAD = 8200
#: Codes of what came of a run, and of loading a library.
_FAILED, _OUT_OF_MEMORY, _REGISTER = 3, 6, 2


class Interpreter:
    """It has the scripts of one cache. ``of_functions``: they are libraries' functions."""

    def __init__(self, calls: Calls, *, of_functions: bool) -> None:
        try:
            from lupa import lua51  # noqa: PLC0415 - only who runs scripts needs it
        except ImportError:
            raise CommandError(scripting.NO_LUA) from None
        self._calls = calls
        self._lua_error: type[Exception] = lua51.LuaError
        self._memory_error: type[Exception] = lua51.LuaMemoryError
        self._lua = lua = lua51.LuaRuntime(
            encoding=None,
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=True,
            max_memory=_UNLIMITED,
        )
        parts = lua.table_from({name.encode(): source(name) for name in PARTS})
        start = lua.eval(b"function(text, ...) return assert(loadstring(text, '=(redis)'))(...) end")
        api = start(source("sandbox"), calls, parts, not of_functions)
        self._chance, self._draw_from = api[b"chance"], api[b"draw_from"]
        self._compile, self._forget, self._run = api[b"compile"], api[b"forget"], api[b"run"]
        self._run_function, self._load, self._adopt = api[b"run_function"], api[b"load"], api[b"adopt"]
        names = [lua.table() for _ in range(_NAMED_AHEAD)]
        del names

    # -- memory -----------------------------------------------------------------------------------------------------

    @property
    def used(self) -> int:
        """The bytes that it uses."""
        used: int = self._lua.get_memory_used(total=True)
        return used

    def left(self) -> int:
        """How many bytes a script may still allocate."""
        used: int = self._lua.get_memory_used(True)  # (each call of a script asks: a keyword costs more)
        return MEMORY_LIMIT - used

    def limit(self) -> None:
        """From now on the limit holds."""
        self._lua.set_max_memory(MEMORY_LIMIT)

    def make_room(self, size: int) -> bool:
        """Allow so many bytes for a reply, whatever the limit says; False where it is passed already."""
        used = self.used
        if used >= MEMORY_LIMIT:
            self._lua.set_max_memory(used + _SLACK)
            return False
        self._lua.set_max_memory(max(MEMORY_LIMIT, used + size + _SLACK))
        return True

    def lift_limit(self) -> None:
        """No script runs."""
        self._lua.set_max_memory(_UNLIMITED)

    def collect(self) -> None:
        """Free what nobody uses any more, if there may be much of it."""
        if self.used > min(_COLLECT_FROM, MEMORY_LIMIT // 4):
            self._lua.gccollect()

    # -- chance -----------------------------------------------------------------------------------------------------

    @property
    def chance(self) -> tuple[float, float]:
        """The state of math.random's generator."""
        state: tuple[float, float] = self._chance()
        return state

    def draw_from(self, chance: tuple[float, float]) -> None:
        """Let math.random go on from that state."""
        self._draw_from(*chance)

    # -- values -----------------------------------------------------------------------------------------------------

    def table(self, value: Any) -> Any:
        """A Lua table of a list or dict, with all that is in it."""
        return self._lua.table_from(value, recursive=True)

    # -- scripts ----------------------------------------------------------------------------------------------------

    def compile(self, name: bytes, text: bytes) -> bytes | None:
        """Keep a script under a name; what is wrong with it, if it does not compile."""
        wrong: bytes | None = self._compile(name, text)
        return wrong

    def forget(self, name: bytes) -> None:
        """Forget a script or function."""
        self._forget(name)

    def run(self, name: bytes, proto: int, count: int, words: list[bytes], *, is_function: bool) -> Any:
        """Run what has that name: a code that says what came of it, and what did.

        ``count`` of the ``words`` are keys. The codes are 0 text, 1 integer, 2 bytes of the protocol, 3 an error with
        its source and line, 4 nil, 5 an error that the script returned, and whether it is
        counted already, 6 that it has used up its memory.
        """
        run = self._run_function if is_function else self._run
        try:
            if len(words) > _MANY:
                return run(name, proto, count, self._lua.table_from(words))
            return run(name, proto, count, *words)
        except self._memory_error:
            return _OUT_OF_MEMORY
        except self._lua_error:
            # The hook has ended the script in the moment in which it returned.
            return _FAILED, scripting.KILLED
        finally:
            self.lift_limit()
            self.collect()

    # -- libraries --------------------------------------------------------------------------------------------------

    def load(self, text: bytes) -> Any:
        """Run a library's code: 0, and name, description and flags of each function; else what is wrong with it."""
        try:
            return self._load(text)
        except self._lua_error:
            return _REGISTER, scripting.LOAD_TIMEOUT
        finally:
            self.lift_limit()
            self.collect()

    def adopt(self) -> None:
        """Take over the functions that the last library has registered."""
        self._adopt()
