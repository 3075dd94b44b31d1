"""Scripts and functions for commands: the caches, and the execution of a run from its words to its reply.

A run belongs to the command that started it, such as EVAL. Its changes are effects of that command, so they are one
transaction in the log and for replicas. If a run exceeds ``busy-reply-threshold``, it can be suspended while the host
serves other clients. During this time, the run's effects, messages and signalled keys are set aside, because its
command is not finished. All but a few commands are refused (``Refusal.BUSY``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from typing import Any

from engine.core.admission import Admission, Refusal
from engine.core.clients.session import Session
from engine.core.environment.context import Context
from engine.core.environment.host import SUSPENDED, Stack
from engine.core.protocol.replies import CommandError, Raw, Reply, Steps
from engine.core.scripting.calls import Calls
from engine.core.scripting.execution import KNOWN_FLAGS, UNDECLARED, Execution, Flags, Verdict, flags_of
from engine.core.scripting.interpreter import Interpreter
from engine.core.table.registry import called_by
from engine.text.messages import scripting
from engine.text.words import split_words

#: Result codes of a run, as in sandbox.lua.
_BYTES, _FAILED, _RETURNED_ERROR, _OUT_OF_MEMORY = range(4)
_LIMIT = 1 << 63
#: Assumed memory of a script in addition to its text, in bytes.
_OVERHEAD = 200
#: Maximum number of cached scripts that only EVAL has loaded, as in Redis 7.4 and later.
_MOST_EVALUATED = 500


class ScriptError(CommandError):
    """The error that ended a script. ``counted``: whether it is already in the statistics of error replies."""

    def __init__(self, text: bytes, *, counted: bool) -> None:
        super().__init__(text)
        self.counted = counted


class Scripts:
    """One core's scripts by SHA-1, and the running script or function."""

    def __init__(self, ctx: Context, admission: Admission) -> None:
        self._ctx = ctx
        self._admission = admission
        self.calls = Calls(ctx, admission)
        self.calls.on_tick = self._tick
        self._interpreter: Interpreter | None = None
        self._scripts: dict[bytes, tuple[bytes, Flags]] = {}
        #: SHA-1 of each cached script by its text.
        self._names: dict[bytes, bytes] = {}
        #: Scripts that only EVAL has loaded, least recently used first.
        self._evaluated: dict[bytes, None] = {}
        # All interpreters continue one sequence of random numbers.
        #: The interpreter that ran last.
        self._drawn_from: Interpreter | None = None
        #: The random generator's state from the last call of ``leave``; None before the first call.
        self._chance: tuple[float, float] | None = None
        #: The stack of the current run, if the run can be suspended.
        self._stack: Stack | None = None

    @property
    def running(self) -> Execution | None:
        """The running script or function, if any."""
        return self.calls.running

    # -- the cache --------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._scripts)

    @property
    def memory(self) -> int:
        """The size of the cached scripts in bytes."""
        return sum(len(text) + _OVERHEAD for text, _ in self._scripts.values())

    @property
    def interpreter_memory(self) -> int:
        """The memory used by the interpreter of scripts in bytes."""
        return self._interpreter.used(True) if self._interpreter is not None else 0

    def has(self, sha: bytes) -> bool:
        """Return whether a script is cached."""
        return sha.lower() in self._scripts

    def load(self, text: bytes, stays: bool = True) -> bytes:
        """Cache a script and return its SHA-1. Raise CommandError if it is invalid.

        With ``stays``, the script is cached until a flush. Otherwise later scripts without ``stays`` may evict it.
        """
        sha = self._names.get(text) or hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
        if sha not in self._scripts:
            flags, code = _declared(text)
            interpreter = self.interpreter()
            wrong = interpreter.compile(sha, code)
            if wrong is not None:
                raise CommandError(scripting.compile_failed(wrong))
            self._scripts[sha] = text, flags
            self._names[text] = sha
            if not stays:
                self._make_room(interpreter)
                self._evaluated[sha] = None
        elif stays:
            self._evaluated.pop(sha, None)
        return sha

    def _make_room(self, interpreter: Interpreter) -> None:
        if len(self._evaluated) >= _MOST_EVALUATED:
            oldest = next(iter(self._evaluated))
            text, _ = self._scripts.pop(oldest)
            del self._evaluated[oldest], self._names[text]
            interpreter.forget(oldest)

    def flush(self) -> None:
        """Remove all scripts and their interpreter, but keep the state of its random generator."""
        self._scripts.clear()
        self._names.clear()
        self._evaluated.clear()
        self.leave(self._interpreter)
        self._interpreter = None

    def leave(self, interpreter: Interpreter | None) -> None:
        """Save the state of the random generator if ``interpreter`` ran last, for the interpreter that runs next."""
        if interpreter is not None and interpreter is self._drawn_from:
            self._chance, self._drawn_from = interpreter.chance, None

    def interpreter(self) -> Interpreter:
        """Return the interpreter of scripts. Raise CommandError if Lua is not installed."""
        if self._interpreter is None:
            self._interpreter = Interpreter(self.calls, of_functions=False)
        return self._interpreter

    def flags_of(self, argv: list[bytes]) -> Flags | None:
        """Return the flags of the script that the EVAL or EVALSHA in ``argv`` would run.

        None if the script does not exist, or if its declarations are invalid.
        """
        if argv[0].upper().startswith(b"EVALSHA"):
            _, flags = self._scripts.get(argv[1].lower(), (b"", None))
            return flags
        try:
            return _declared(argv[1])[0]
        except CommandError:
            return None

    def run_script(self, ctx: Context, argv: list[bytes], count: int, sha: bytes, read_only: bool) -> Reply:
        """Run the script with this SHA-1. ``argv`` are the words of EVAL or EVALSHA, with ``count`` keys."""
        sha = sha.lower()
        found = self._scripts.get(sha)
        if found is None:
            raise CommandError(scripting.NO_SCRIPT)
        if sha in self._evaluated:
            del self._evaluated[sha]
            self._evaluated[sha] = None
        interpreter = self._interpreter or self.interpreter()
        return self.run(ctx, argv, count, sha, found[1], interpreter, read_only)

    # -- a run ------------------------------------------------------------------------------------------------------

    def run(
        self,
        ctx: Context,
        argv: list[bytes],
        count: int,
        name: bytes,
        flags: Flags,
        interpreter: Interpreter,
        read_only: bool,
        is_function: bool = False,
    ) -> Reply:
        """Run a script or function. Raise CommandError if it may not run now, or fails."""
        if flags.declared or self._admission.refuses:
            # In all other cases, `_check` would allow the run.
            self._check(ctx.session, flags, read_only=read_only)
        if ctx.monitors.sessions:
            ctx.monitors.show_words(ctx.session, argv)
        running = Execution(
            ctx.session,
            name,
            argv,
            flags,
            is_function,
            read_only or flags.no_writes,
            ctx.telemetry.stopwatch(),
            self._admission.memory_full,
        )
        return self.apart(ctx, argv, lambda: self._run(running, interpreter, count))

    def apart(self, ctx: Context, argv: list[bytes], work: Callable[[], Reply]) -> Reply:
        """Run ``work``, which runs scripts and can be suspended; return its reply, or Steps if it is slow."""
        stack = None if self._stack is not None or not ctx.allows_steps or ctx.changes.replaying else ctx.host.stack()
        if stack is None:
            return work()
        self._stack = stack
        first, messages = len(ctx.changes.effects), len(ctx.outbox)
        reply: Reply = None
        try:
            reply = stack.run(work)
        finally:
            if reply is not SUSPENDED:
                self._stack = None
        if reply is not SUSPENDED:
            return reply
        rest = self._rest(ctx, ctx.session, stack, first, messages)
        next(rest)  # Sets the effects so far aside, before the first yield.
        return Steps(argv, rest, is_whole=True)

    def _rest(
        self, ctx: Context, session: Session, stack: Stack, first: int, messages: int
    ) -> Generator[None, None, Reply]:
        """Resume suspended work until it is finished; its effects become visible only then."""
        changes, outbox = ctx.changes, ctx.outbox
        now_us = changes.now_us
        busy = (
            scripting.BUSY_FUNCTION if self.running is not None and self.running.is_function else scripting.BUSY_SCRIPT
        )
        self._admission.refuse(Refusal.BUSY, busy)
        try:
            while True:
                effects, outgoing, ready = changes.effects[first:], outbox[messages:], changes.ready
                del changes.effects[first:], outbox[messages:]
                changes.ready = {}
                yield
                first, messages = len(changes.effects), len(outbox)
                changes.effects += effects
                outbox += outgoing
                ready.update(changes.ready)
                changes.ready = ready
                later_us = changes.now_us
                changes.set_time(now_us)
                try:
                    reply = stack.resume()
                finally:
                    changes.set_time(later_us)
                    ctx.enter(session)
                if reply is not SUSPENDED:
                    return reply
        finally:
            self._stack = None
            self._admission.refuse(Refusal.BUSY, b"")

    def _tick(self) -> None:
        """Suspend a slow script, so that other clients are served. End a library's code that runs for too long.

        Lua's hook calls this method regularly.
        """
        running, stack = self.running, self._stack
        if running is None:
            return
        ctx = self._ctx
        elapsed = ctx.telemetry.stopwatch() - running.began_ns
        if running.is_loading:
            if elapsed > _LOAD_NS:
                running.verdict = running.verdict or Verdict.LOAD_TIMEOUT
            return
        if running.verdict or stack is None:
            return
        if not running.is_slow:
            limit = ctx.config.integer("busy-reply-threshold")
            if not limit or elapsed < limit * 1_000_000:
                return
            running.is_slow = True
        stack.pause()
        ctx.enter(self.calls.session)

    def _check(self, session: Session, flags: Flags, *, read_only: bool) -> None:
        """Raise CommandError if the script's declarations forbid it to run now."""
        admission, changes = self._admission, self._ctx.changes
        if flags.declared and not flags.no_writes and read_only:
            raise CommandError(scripting.WRITES_UNDER_RO)
        if admission.refuses and not flags.allow_stale and not (changes.replaying or session.is_master):
            # The script's other declarations were checked before the command ran (see script_flags).
            stale = admission.refusal(Refusal.STALE)
            if stale:
                raise CommandError(stale)

    def _run(self, running: Execution, interpreter: Interpreter, count: int) -> Reply:
        proto, words = running.caller.proto, running.argv[3:]
        self.start_run(running, interpreter)
        try:
            outcome = interpreter.run(running.name, proto, count, words, running.is_function)
        finally:
            self.calls.end()
        return self._reply(running, outcome)

    def start_run(self, running: Execution, interpreter: Interpreter) -> None:
        """Start a run. Until ``calls.end``, ``calls`` runs commands for this run's caller."""
        self.calls.start(running, interpreter)
        if interpreter is not self._drawn_from:
            self.leave(self._drawn_from)
            if self._chance is not None:
                interpreter.draw_from(self._chance)
            self._drawn_from = interpreter

    def _reply(self, running: Execution, outcome: Any) -> Reply:
        if outcome is None or type(outcome) is bytes:
            return outcome
        if type(outcome) is not tuple:
            return int(outcome) if -_LIMIT <= outcome < _LIMIT else -_LIMIT
        code, *rest = outcome
        if code == _BYTES:
            if len(rest) > 1:
                self._count_errors(running, int(rest[1]), rest[2].splitlines())
            return Raw(rest[0])
        if code == _OUT_OF_MEMORY:
            raise ScriptError(scripting.OUT_OF_MEMORY, counted=False)
        if code == _RETURNED_ERROR:
            raise ScriptError(rest[0], counted=bool(rest[1]))
        text, source, line = (*rest, None, None)[:3]
        text = text.partition(b"\0")[0].replace(b"\r", b" ").replace(b"\n", b" ")
        if source is not None:
            text = scripting.failed(text, running.name, source, int(line))
        raise ScriptError(text, counted=bool(rest[3:] and rest[3]))

    def _count_errors(self, running: Execution, counted: int, texts: list[bytes]) -> None:
        """Count the errors within a reply.

        As in Redis, the run fails once for each error that is already in the statistics, and once for all others.
        """
        telemetry, command = self._ctx.telemetry, called_by(running.argv)
        assert command is not None
        for text in texts:
            telemetry.count_error(CommandError(text))
        telemetry.stats[command.full_name].failed += counted + bool(texts)

    # -- ending a script --------------------------------------------------------------------------------------------

    def end_soon(self) -> None:
        """End the running script if it has not written yet."""
        if self.running is not None and not self.running.wrote:
            self.running.verdict = Verdict.KILLED

    def kill(self, *, function: bool) -> None:
        """End the slow script that is running; with ``function``, the slow function.

        Raise CommandError if no slow script or function of this kind is running, or if it has written.
        """
        running = self.running
        if running is None or not running.is_slow:
            raise CommandError(scripting.NOT_BUSY)
        if running.wrote:
            raise CommandError(scripting.UNKILLABLE)
        if running.is_function is not function:
            raise CommandError(scripting.BUSY_FUNCTION if running.is_function else scripting.BUSY_SCRIPT)
        running.verdict = Verdict.KILLED


#: Time limit for running a library's code, in nanoseconds.
_LOAD_NS = 500_000_000


def _declared(text: bytes) -> tuple[Flags, bytes]:
    """Return the declarations in a script's first line, and its code with unchanged line numbers."""
    if not text.startswith(b"#!"):
        return UNDECLARED, text
    line, newline, _ = text.partition(b"\n")
    if not newline:
        raise CommandError(scripting.BAD_SHEBANG)
    words = split_words(line) or [b""]
    if words[0] != b"#!lua":
        raise CommandError(scripting.unexpected_engine(words[0]))
    found: set[bytes] = set()
    for word in words[1:]:
        if not word.startswith(b"flags="):
            raise CommandError(scripting.unknown_option(word))
        for flag in filter(None, word[6:].split(b",")):
            if flag not in KNOWN_FLAGS:
                raise CommandError(scripting.unexpected_flag(flag))
            found.add(flag)
    return flags_of(frozenset(found)), text[len(line) :]
