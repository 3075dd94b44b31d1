"""The Python implementation of the functions that scripts call, such as `redis.call` and `redis.pcall`.

A command called by a script runs with the same handler as a client's command. Its effects are added to those of the
command that runs the script, such as EVAL. Its duration is added to its own statistics. It runs in a session for
scripts, which never blocks, uses the protocol that the script has selected, and has the caller's user, database and
rights. This module checks whether the command may run, because the rules and error texts differ from those for clients.

Python exceptions must never reach a script. An error is stored in `Calls.error`, and `RaisedError` is raised.
The sandbox replaces this exception with a table that contains the text.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any, Protocol

from engine.core.admission import Admission, Refusal
from engine.core.clients.session import Session
from engine.core.environment.context import Context
from engine.core.environment.failures import FatalError, is_fatal
from engine.core.protocol.replies import CommandError, Map, Reply, Simple
from engine.core.scripting.execution import Execution, Verdict
from engine.core.scripting.lua_values import converted, size_of
from engine.core.table.registry import COMMANDS, WRITTEN, Command
from engine.core.table.unsupported import family_of
from engine.text import doubles
from engine.text.messages import general, scripting
from engine.version import REDIS_VERSION

#: Reasons to refuse writes. If several apply, the script receives the error of the first.
_WRITING = (Refusal.READONLY, Refusal.DISK, Refusal.REPLICAS)
#: Texts shorter than this number of bytes are measured only if ``Memory.plenty_below`` is reached.
_SMALL = 1 << 20
_BYTES = frozenset({bytes})
#: Types of Lua values that are neither tables nor nil.
_SCALARS = frozenset({bytes, int, bool})
#: Memory of a table's element in bytes, without the text itself.
_PER_ELEMENT = 96
#: Integers below this limit are exact as doubles, so they are formatted with all their digits.
_EXACT = 1 << 53


# A tick is a call of Lua's hook.
#: Number of instructions before the first tick, as in the sandbox.
_FIRST = 1000
#: Ticks become ten times as frequent if the time since the last tick exceeds this number of nanoseconds.
_SLOW_NS = 10_000_000
#: Ticks become a tenth as frequent if the time since the last tick is below this number of nanoseconds.
_FAST_NS = 1_000_000


class RaisedError(Exception):
    """An error for the script, which is in `Calls.error`."""


_RAISED = RaisedError()


#: Names of the functions of `redis` below that return a result.
_WITH_RESULT = ["call", "pcall"]
#: Names of the functions of `redis` below that return no result.
_WITHOUT_RESULT = list[str]()


def _offered(method: Callable[..., Any]) -> Callable[..., Any]:
    """Offer a function with a result to scripts. Its CommandErrors become errors in the script."""
    _WITH_RESULT.append(method.__name__)
    return _raising(method)


def _offered_without_result(method: Callable[..., None]) -> Callable[..., None]:
    """Offer a function without a result to scripts. Its CommandErrors become errors in the script."""
    _WITHOUT_RESULT.append(method.__name__)
    return _raising(method)


def _raising(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method so that its CommandErrors become errors in the script."""

    def called(self: Calls, *words: Any) -> Any:
        try:
            return method(self, *words)
        except CommandError as error:
            self.error = error.as_reply()
        except BaseException as error:  # noqa: BLE001 - must not reach the script
            self._break(error)
            self.error = CommandError(general.INTERNAL_ERROR)
        words = ()  # lupa keeps the last error and its frames, which would keep Lua's tables alive
        raise _RAISED.with_traceback(None)

    return called


class Memory(Protocol):
    """The memory of the running interpreter."""

    #: ``used(True)`` returns the number of bytes in use.
    used: Callable[[bool], int]
    #: Number of bytes in use below which there is room for a small reply.
    plenty_below: int

    def make_room(self, size: int) -> bool:
        """Raise the limit so that a reply of ``size`` bytes fits. Return False if memory already exceeds the limit."""

    def table(self, value: Any) -> Any:
        """Return a Lua table for a list or dict."""

    def flat_table(self, values: list[Any]) -> Any:
        """Return a Lua table for a list of texts, numbers and booleans."""

    def status(self, text: bytes) -> Any:
        """Return a Lua table for a simple string."""


class Calls:
    """The functions that one core's scripts can call. Lua's hook calls `tick`.

    ``running`` and ``memory`` are set while a script runs.
    """

    def __init__(self, ctx: Context, admission: Admission) -> None:
        self._ctx = ctx
        self._admission = admission
        self._divided = ctx.divided.running
        #: The session in which commands called by scripts run.
        self.session = Session(0, 0)
        self.session.in_exec = True
        self.session.addr = b"lua"
        self.running: Execution | None = None
        self.memory: Memory | None = None
        self.resp = 2
        #: The last raised error.
        self.error = CommandError(b"")
        #: An unexpected error. It ends the script, and is then raised by the command that ran the script.
        self.broken: BaseException | None = None
        self.version = REDIS_VERSION.encode()
        major, minor, patch = map(int, REDIS_VERSION.split("."))
        self.version_number = major << 16 | minor << 8 | patch
        self.on_tick: Callable[[], None] = lambda: None
        #: Stopwatch time of the last tick, in nanoseconds.
        self._ticked_ns = 0
        #: Number of instructions between two ticks.
        self._every = _FIRST

    # -- interpreter ------------------------------------------------------------------------------------------------

    def offered(self) -> tuple[dict[bytes, Any], dict[bytes, Any]]:
        """Return the functions of `redis` by name: those that return a result, and the others."""
        functions, silent = (
            {name.encode(): getattr(self, name) for name in names} for names in (_WITH_RESULT, _WITHOUT_RESULT)
        )
        return functions, silent

    def start(self, running: Execution, memory: Memory) -> None:
        """Prepare for a run: the session and the interpreter's hook."""
        session, caller = self.session, running.caller
        session.id, session.db, session.name, session.user = caller.id, caller.db, caller.name, caller.user
        session.is_master, session.limited = caller.is_master, caller.limited
        session.proto = self.resp = 2
        self.running, self.memory = running, memory
        self._ctx.enter(session)
        self._ticked_ns, self._every = running.began_ns, _FIRST

    def end(self) -> None:
        """End the run and return to the caller. Raise the run's unexpected error, if there was one."""
        assert self.running is not None
        self._ctx.enter(self.running.caller)
        self.running = self.memory = None
        if self.broken is not None:
            broken, self.broken = self.broken, None
            raise broken

    def tick(self) -> tuple[int, int]:
        """Return the verdict on the running script, and the number of instructions until the hook's next call."""
        stopwatch, running = self._ctx.telemetry.stopwatch, self.running
        try:
            spent = stopwatch() - self._ticked_ns
            if spent > _SLOW_NS:
                self._every = max(self._every // 10, 10)
            elif spent < _FAST_NS:
                self._every = min(self._every * 10, 10_000)
            self.on_tick()
            self._ticked_ns = stopwatch()
        except BaseException as error:  # noqa: BLE001 - must not reach the script
            self._break(error)
        return running.verdict if running is not None else Verdict.GO_ON, self._every

    def resp_now(self) -> int:
        """Return the protocol that the script has selected."""
        return self.resp

    def raised_error(self) -> tuple[bytes, bool]:
        """Return the text of the last raised error, and whether it is already in the statistics of error replies."""
        return self.error.text, self.error.counted

    def _break(self, error: BaseException) -> None:
        self.broken = self.broken or error
        if self.running is not None:
            self.running.verdict = Verdict.KILLED

    # -- commands ---------------------------------------------------------------------------------------------------

    def call(self, *words: Any) -> Any:
        """`redis.call`: return the command's reply, or raise its error."""
        try:
            value = self._run(words)
            if type(value) is not CommandError:
                return value
            self.error = value
        except CommandError as error:
            self.error = error.as_reply()
        except BaseException as error:  # noqa: BLE001 - as above
            self._break(error)
            self.error = CommandError(general.INTERNAL_ERROR)
        words = ()  # lupa keeps the last error and its frames, which would keep Lua's tables alive
        raise _RAISED.with_traceback(None)

    def pcall(self, *words: Any) -> Any:
        """`redis.pcall`: return the command's reply, or a table with its error."""
        try:
            try:
                value = self._run(words)
                if type(value) is not CommandError:
                    return value
            except CommandError as error:
                value = error.as_reply()
            shown: dict[bytes, Any] = {b"err": value.text}
            if value.counted:
                shown[b"ignore_error_stats_update"] = True
            return self._passed(shown)
        except CommandError as error:
            self.error = error.as_reply()
        except BaseException as error:  # noqa: BLE001 - as above
            self._break(error)
            self.error = CommandError(general.INTERNAL_ERROR)
        words = ()  # lupa keeps the last error and its frames, which would keep Lua's tables alive
        raise _RAISED.with_traceback(None)

    def _as_value(self, reply: Reply) -> Any:
        """Return a reply as a Lua value."""
        memory, kind = self.memory, type(reply)
        assert memory is not None
        if (kind is list or (kind is Map and self.resp == 2)) and _BYTES.issuperset(map(type, reply)):
            size = sum(map(len, reply))
        else:
            reply = converted(reply, self.resp)
            if type(reply) is not list or not _SCALARS.issuperset(map(type, reply)):
                return self._passed(reply)
            size = sum([len(value) for value in reply if type(value) is bytes])
        self._make_room(size + _PER_ELEMENT * len(reply))
        return memory.flat_table(reply)

    def _passed(self, value: Any) -> Any:
        """Return a converted reply as a Lua value."""
        if value is None or value is False:
            return value
        self._make_room(size_of(value))
        assert self.memory is not None
        return self.memory.table(value) if isinstance(value, list | dict) else value

    def _make_room(self, size: int) -> None:
        """Make room in Lua's memory for a reply of ``size`` bytes. Raise CommandError if memory exceeds its limit."""
        memory = self.memory
        assert memory is not None
        is_free = size < _SMALL and memory.used(True) < memory.plenty_below
        if not is_free and not memory.make_room(size):
            raise CommandError(scripting.OUT_OF_MEMORY)

    def _words(self, words: tuple[Any, ...]) -> list[bytes]:
        """Return the arguments of a call as a command's words."""
        if not words:
            raise CommandError(scripting.NO_ARGUMENTS)
        return [word if type(word) is bytes else _shown(word) for word in words]

    def _run(self, words: tuple[Any, ...]) -> Any:
        """Run a command, and count it like a client's command; return its reply as a Lua value.

        Return an error reply as a CommandError. Raise CommandError if the command may not run.
        """
        # A single function, because a script may make thousands of calls.
        if not words:
            raise CommandError(scripting.NO_ARGUMENTS)
        argv = []
        for word in words:  # a comprehension would cost another function call
            argv.append(word if type(word) is bytes else _shown(word))  # noqa: PERF401
        ctx, running = self._ctx, self.running
        if running is None or running.verdict:
            raise CommandError(scripting.KILLED)
        command = WRITTEN.get(argv[0])
        # Inlined Command.arity_fits.
        if command is None or (command.arity != len(argv) and not 0 < -command.arity <= len(argv)):
            command = self._command(argv)
        telemetry = ctx.telemetry
        stat = telemetry.stats[command.full_name]
        if running.is_restricted or self._admission.refuses or "noscript" in command.flags:
            # In all other cases, `_check` would allow the command.
            try:
                self._check(running, command, argv)
            except CommandError as error:
                stat.rejected += 1
                telemetry.count_error(error)
                raise
        if self._divided:
            ctx.divided.make_way_for((command, argv))
        if command.writes:
            running.wrote = True
        began = telemetry.stopwatch()
        failed = False
        reply: Reply
        try:
            reply = command.handler(ctx, argv)
        except CommandError as error:
            telemetry.count_error(error)
            reply = error.as_reply()
            failed = True
        except Exception as error:
            if is_fatal(command, error):
                raise FatalError(command.name, argv, running.caller.id) from error
            ctx.host.report_failure(command.name, error)
            reply = CommandError(general.INTERNAL_ERROR)
            telemetry.count_error(reply)
            failed = True
        spent = telemetry.stopwatch() - began
        if spent < 0:  # noqa: PLR1730 - a call would cost more, for every command
            # The clock was set back.
            spent = 0
        stat.ns += spent
        stat.buckets[spent.bit_length()] += 1
        if failed:
            stat.failed += 1
        if spent >= telemetry.threshold_ns:
            telemetry.note_slow(self.session, command, argv, spent // 1000, ctx.changes.now)
            if ctx.monitors.sessions:
                ctx.monitors.show(self.session, command, argv)
        kind = type(reply)
        if kind is int:
            return reply if -(1 << 63) <= reply < 1 << 63 else float(reply)
        if reply is None:
            return None if self.resp == 3 else False
        memory = self.memory
        assert memory is not None
        if (kind is bytes or kind is Simple) and len(reply) < _SMALL and memory.used(True) < memory.plenty_below:
            return reply if kind is bytes else memory.status(reply)
        return reply if kind is CommandError else self._as_value(reply)

    def _command(self, argv: list[bytes]) -> Command:
        command = COMMANDS.get(argv[0]) or COMMANDS.get(argv[0].upper())
        if command is not None and command.subcommands and len(argv) > 1:
            command = command.subcommands.get(argv[1].upper())
        if command is not None and command.arity_fits(len(argv)):
            return command
        if command is not None:
            self._ctx.telemetry.stats[command.full_name].rejected += 1
        family = family_of(argv[0]) if command is None else None
        text = scripting.WRONG_ARITY if command is not None else scripting.UNKNOWN_COMMAND
        error = CommandError(text if family is None else general.left_out(argv[0], family))
        self._ctx.telemetry.count_error(error)
        raise error

    def _check(self, running: Execution, command: Command, argv: list[bytes]) -> None:
        """Raise CommandError if the script may not call the command now."""
        flags, admission, caller = command.flags, self._admission, running.caller
        obeys_all = caller.is_master or self._ctx.changes.replaying
        if "noscript" in flags:
            raise CommandError(scripting.NOT_FROM_SCRIPT)
        if admission.refuses and not obeys_all and admission.refusal(Refusal.STALE) and "stale" not in flags:
            raise CommandError(scripting.STALE)
        if caller.limited:
            denial = caller.user.denial(command, argv)
            if denial is not None:
                log = self._ctx.accounts.log
                log.add(denial.reason, caller, denial.name, caller.user.name, self._ctx.changes.now, context="lua")
                raise CommandError(scripting.DENIED[denial.reason])
        if running.read_only and (command.writes or "may_replicate" in flags):
            raise CommandError(scripting.READ_ONLY)
        if command.writes and admission.refuses and not obeys_all:
            for why in _WRITING:
                text = admission.refusal(why)
                if text:
                    raise CommandError(text)
        may_fill = running.flags.allow_oom or running.wrote or not running.memory_full or obeys_all
        if not may_fill and "denyoom" in flags:
            raise CommandError(scripting.MEMORY_FULL)

    @_offered
    def acl_check_cmd(self, *words: Any) -> Any:
        """`redis.acl_check_cmd`: return whether the caller may call a command."""
        argv = self._words(words)
        command = COMMANDS.get(argv[0].upper())
        if command is not None and command.subcommands and len(argv) > 1:
            command = command.subcommands.get(argv[1].upper())
        if command is None:
            raise CommandError(scripting.ACL_CHECK)
        if not command.arity_fits(len(argv)):
            raise CommandError(scripting.ACL_CHECK_ARITY)
        assert self.running is not None
        return self.running.caller.user.denial(command, argv) is None

    # -- the other functions ----------------------------------------------------------------------------------------

    @_offered
    def sha1hex(self, *words: Any) -> Any:
        """`redis.sha1hex`: return the SHA-1 of a text in hexadecimal digits."""
        if len(words) != 1:
            raise CommandError(scripting.ARGUMENT_COUNT)
        text = words[0] if type(words[0]) is bytes else b""
        return hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()

    @_offered_without_result
    def log(self, *words: Any) -> None:
        """`redis.log`: write a line to the log."""
        if len(words) < 2:
            raise CommandError(scripting.LOG_ARGUMENTS)
        level, *parts = words
        if type(level) not in (int, float):
            raise CommandError(scripting.LOG_LEVEL_NUMBER)
        if not -1 < level < 4:
            raise CommandError(scripting.LOG_LEVEL)
        texts = [
            part if type(part) is bytes else b"%.14g" % part for part in parts if type(part) in (bytes, int, float)
        ]
        self._ctx.host.script_log(int(level), b" ".join(texts))

    @_offered_without_result
    def setresp(self, *words: Any) -> None:
        """`redis.setresp`: select the protocol of the script's replies."""
        if len(words) != 1:
            raise CommandError(scripting.SETRESP_ARGUMENTS)
        wanted = _whole(words[0])
        if wanted not in (2, 3):
            raise CommandError(scripting.SETRESP_VERSION)
        self.resp = self.session.proto = wanted

    def shown_double(self, number: float) -> bytes:
        """Format a number for the encoder of a script's result."""
        return doubles.text(float(number))

    @_offered_without_result
    def set_repl(self, *words: Any) -> None:
        """`redis.set_repl`: check the arguments only; a script's changes are always replicated and logged."""
        if len(words) != 1:
            raise CommandError(scripting.SET_REPL_ARGUMENTS)
        if _whole(words[0]) & ~3:
            raise CommandError(scripting.SET_REPL_FLAGS)


def _whole(word: Any) -> int:
    """Return a word as an integer: 0 if it is not a number, -1 if it is not finite."""
    if type(word) not in (int, float):
        return 0
    return int(word) if math.isfinite(word) else -1


def _shown(number: Any) -> bytes:
    """Format a number as a command's argument: the shortest digits that represent it, as in Redis 7.2 and later."""
    if type(number) is int:
        if -_EXACT < number < _EXACT:
            return b"%d" % number
        number = float(number)
    elif type(number) is not float:
        raise CommandError(scripting.BAD_ARGUMENTS)
    if math.isnan(number):
        return b"-nan" if math.copysign(1, number) < 0 else b"nan"
    return doubles.text(number) if number else b"0"
