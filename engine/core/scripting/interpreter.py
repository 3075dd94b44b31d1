"""One Lua 5.1 interpreter with the sandbox, and its Python interface.

lupa is imported with the first interpreter, so it costs nothing on a server that runs no scripts. The interpreter's
memory is limited only while a script runs. Outside a protected call of Lua, lupa's allocations must not fail, because
Lua would end the process. So the limit is set just before the run, if there is room for its words, and lifted
afterwards. Memory for a reply is reserved before the reply is passed to Lua (``make_room``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.core.protocol.replies import CommandError
from engine.core.scripting.calls import Calls
from engine.core.scripting.lua import PARTS, source
from engine.text.messages import scripting

#: Maximum memory of one interpreter in bytes, for all its scripts or libraries of functions.
MEMORY_LIMIT = 1 << 30
_UNLIMITED = 1 << 50
#: Memory in use, in bytes, above which a full garbage collection follows each script.
_COLLECT_FROM = 64 << 20
#: Number of free bytes above which the size of a small reply is not measured.
_PLENTY = 8 << 20
#: Bytes added to a reply's measured size, for lupa's references to objects.
_SLACK = 4096
#: More arguments than this number are passed as one table, because Lua's stack has only 8,000 slots.
_MANY = 200
#: Number of references to Lua objects for which space is allocated in advance, because calls must not allocate it.
_NAMED_AHEAD = 8200
#: Result codes of a run, as in sandbox.lua.
_FAILED, _OUT_OF_MEMORY = 1, 3
#: Result codes of loading a library whose code does not compile, or failed while it ran.
_COMPILE, _REGISTER = 1, 2


class Interpreter:
    """An interpreter for the scripts of one cache; with ``of_functions``, for the functions of libraries."""

    def __init__(self, calls: Calls, *, of_functions: bool) -> None:
        try:
            from lupa import lua51  # noqa: PLC0415 - only needed to run scripts
        except ImportError:
            raise CommandError(scripting.NO_LUA) from None
        self._collect_from = min(_COLLECT_FROM, MEMORY_LIMIT // 4)
        self._lua_error: type[Exception] = lua51.LuaError
        self._memory_error: type[Exception] = lua51.LuaMemoryError
        self._lua = lua = lua51.LuaRuntime(
            encoding=None,
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=True,
            max_memory=_UNLIMITED,
        )
        #: ``used(True)`` returns the number of bytes in use.
        self.used: Callable[[bool], int] = lua.get_memory_used
        #: Number of bytes in use below which there is room for a small reply.
        self.plenty_below = self._plenty_below = MEMORY_LIMIT - _PLENTY
        parts = lua.table_from({name.encode(): source(name) for name in PARTS})
        functions, silent = map(lua.table_from, calls.offered())
        start = lua.eval(b"function(text, ...) return assert(loadstring(text, '=(redis)'))(...) end")
        api = start(source("sandbox"), calls, functions, silent, parts, not of_functions)
        self._chance, self._draw_from = api[b"chance"], api[b"draw_from"]
        self._compile, self._forget, self._run = api[b"compile"], api[b"forget"], api[b"run"]
        self._pack = api[b"pack"]
        self._status = api[b"status"]
        self._run_function = api[b"run_function"]
        self._compile_library, self._load, self._adopt = api[b"compile_library"], api[b"load"], api[b"adopt"]
        names = [lua.table() for _ in range(_NAMED_AHEAD)]
        del names

    # -- memory -----------------------------------------------------------------------------------------------------

    def make_room(self, size: int) -> bool:
        """Raise the limit so that a reply of ``size`` bytes fits. Return False if memory already exceeds the limit."""
        used = self.used(True)
        if used >= MEMORY_LIMIT:
            self._lua.set_max_memory(used + _SLACK)
            return False
        limit = max(MEMORY_LIMIT, used + size + _SLACK)
        self._lua.set_max_memory(limit)
        # A raised limit is restored by the next reply, even a small one.
        self.plenty_below = self._plenty_below if limit == MEMORY_LIMIT else 0
        return True

    def _limit(self) -> None:
        """Enforce the memory limit until the end of the run. The following call must need little memory."""
        self._lua.set_max_memory(MEMORY_LIMIT)
        self.plenty_below = self._plenty_below

    def _lift_limit(self) -> None:
        """Stop enforcing the limit, after the script. Run a full garbage collection if much memory is in use."""
        self._lua.set_max_memory(_UNLIMITED)
        if self.used(True) > self._collect_from:
            self._lua.gccollect()

    # -- randomness -------------------------------------------------------------------------------------------------

    @property
    def chance(self) -> tuple[float, float]:
        """The state of math.random's generator."""
        state: tuple[float, float] = self._chance()
        return state

    def draw_from(self, chance: tuple[float, float]) -> None:
        """Restore this state of math.random's generator."""
        self._draw_from(*chance)

    # -- values -----------------------------------------------------------------------------------------------------

    def table(self, value: Any) -> Any:
        """Return a Lua table for a list or dict, recursively."""
        return self._lua.table_from(value, recursive=True)

    def flat_table(self, values: list[Any]) -> Any:
        """Return a Lua table for a list of texts, numbers and booleans."""
        if len(values) > _MANY:
            return self._lua.table_from(values)
        try:
            return self._pack(*values)
        except self._lua_error:
            # The hook has ended the script.
            raise CommandError(scripting.KILLED) from None

    def status(self, text: bytes) -> Any:
        """Return a Lua table for a simple string."""
        try:
            return self._status(text)
        except self._lua_error:
            raise CommandError(scripting.KILLED) from None

    # -- scripts ----------------------------------------------------------------------------------------------------

    def compile(self, name: bytes, text: bytes) -> bytes | None:
        """Compile and store a script under a name; return the error if it does not compile."""
        wrong: bytes | None = self._compile(name, text)
        return wrong

    def forget(self, name: bytes) -> None:
        """Remove a script or function."""
        self._forget(name)

    def run(self, name: bytes, proto: int, count: int, words: list[bytes], is_function: bool) -> Any:
        """Run the script or function of this name; return its result. The first ``count`` of the ``words`` are keys.

        Text, a number and nil are returned as they are. Other results are tuples of a code and values: 0 bytes of the
        protocol, 1 error (with source and line), 2 error returned by the script (with whether it has been counted), and
        3 out of memory.
        """
        run = self._run_function if is_function else self._run
        try:
            if len(words) > _MANY or self.used(True) + sum(map(len, words)) > self._collect_from:
                words = [self._lua.table_from(words)]
            self._limit()
            return run(name, proto, count, *words)
        except self._memory_error:
            return (_OUT_OF_MEMORY,)
        except self._lua_error:
            # The hook ended the script just as it returned.
            return _FAILED, scripting.KILLED
        finally:
            self._lift_limit()

    # -- libraries --------------------------------------------------------------------------------------------------

    def load(self, text: bytes) -> Any:
        """Run a library's code; return 0 with name, description and flags of each function, or a code and the error."""
        try:
            wrong = self._compile_library(text)
            if wrong is not None:
                return _COMPILE, wrong
            self._limit()
            return self._load()
        except self._lua_error:
            return _REGISTER, scripting.LOAD_TIMEOUT
        finally:
            self._lift_limit()

    def adopt(self) -> None:
        """Make the functions registered by the last library callable."""
        self._adopt()
