"""Libraries of functions: their code, and the functions registered in the interpreter.

The code of libraries from a file, a log or a master runs only on the first use of any library or function. So loading
data and following a master do not need Lua, and a library that cannot run here is kept for servers that can run it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.core.environment.context import Context
from engine.core.environment.scripting import Library
from engine.core.protocol.replies import CommandError, Reply
from engine.core.scripting.execution import Execution, Flags, flags_of
from engine.core.scripting.interpreter import Interpreter
from engine.core.scripting.scripts import Scripts
from engine.text.messages import scripting
from engine.text.words import split_words

_NAME = re.compile(rb"[A-Za-z0-9_]+")
_COMPILE, _REGISTER = 1, 2


@dataclass(slots=True)
class _Function:
    library: Library
    name: bytes
    flags: Flags = field(default_factory=Flags)


class Functions:
    """One core's libraries. ``ctx`` and ``scripts`` belong to the same core."""

    def __init__(self, ctx: Context, scripts: Scripts) -> None:
        self._ctx = ctx
        self._scripts = scripts
        self._interpreter: Interpreter | None = None
        self._libraries: dict[bytes, Library] = {}
        #: Functions by lower-case name, because names are case-insensitive.
        self._functions: dict[bytes, _Function] = {}
        #: Code from a file, a log or a master that has not run yet.
        self._unread: list[bytes] = []
        #: Code from a file, a log or a master that has failed to run.
        self._unusable: list[bytes] = []

    # -- statistics -------------------------------------------------------------------------------------------------

    def codes(self) -> list[bytes]:
        """Return the code of all libraries, for snapshots and logs."""
        return [*self._unread, *self._unusable, *(library.code for library in self._libraries.values())]

    @property
    def count(self) -> int:
        """The number of functions, without those of libraries whose code has not run yet."""
        return len(self._functions)

    @property
    def interpreter_memory(self) -> int:
        """The memory used by the interpreter of functions in bytes."""
        return self._interpreter.used(True) if self._interpreter is not None else 0

    # -- libraries --------------------------------------------------------------------------------------------------

    def libraries(self) -> Iterable[Library]:
        """Return all libraries."""
        self._read()
        return self._libraries.values()

    def load(self, code: bytes, *, replace: bool) -> bytes:
        """Add a library and return its name. With ``replace``, it replaces any library of the same name.

        Raise CommandError if the library cannot be loaded, or if its name exists and ``replace`` is not set.
        """
        if self._ctx.changes.replaying:
            return self._note(code)
        self._read()
        return self._load(code, replace=replace)

    def _load(self, code: bytes, *, replace: bool) -> bytes:
        name, text = _metadata(code)
        old = self._libraries.get(name)
        if old is not None and not replace:
            raise CommandError(scripting.library_exists(name))
        library = Library(name, code)
        interpreter = self._made()
        for function, description, flags in self._registered(interpreter, text):
            known = self._functions.get(function.lower())
            if known is not None and known.library is not old:
                raise CommandError(scripting.function_exists(function))
            library.functions[function] = description, flags
        if old is not None:
            self._drop(old)
        interpreter.adopt()
        self._libraries[name] = library
        for function, (_, flags) in library.functions.items():
            self._functions[function.lower()] = _Function(library, function, flags_of(frozenset(flags)))
        return name

    def _made(self) -> Interpreter:
        if self._interpreter is None:
            self._interpreter = Interpreter(self._scripts.calls, of_functions=True)
        return self._interpreter

    def _registered(self, interpreter: Interpreter, text: bytes) -> list[tuple[bytes, bytes | None, list[bytes]]]:
        """Run a library's code and return the functions that it registers: name, description, flags."""
        ctx, scripts = self._ctx, self._scripts
        running = Execution(ctx.session, b"", [], Flags(), True, True, ctx.telemetry.stopwatch())
        running.is_loading = True
        scripts.start_run(running, interpreter)
        try:
            outcome = interpreter.load(text)
        finally:
            scripts.calls.end()
        code, *rest = outcome if isinstance(outcome, tuple) else (outcome,)
        if code == _COMPILE:
            raise CommandError(scripting.library_compile_failed(rest[0]))
        if code == _REGISTER:
            raise CommandError(scripting.registering_failed(rest[0]))
        if not rest:
            raise CommandError(scripting.NO_FUNCTIONS)
        groups = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
        # Without a description, Lua passes false; an empty description is a text.
        return [(name, None if text is False else text, flags.split()) for name, text, flags in groups]

    def _drop(self, library: Library) -> None:
        del self._libraries[library.name]
        for name in library.functions:
            del self._functions[name.lower()]
            if self._interpreter is not None:
                self._interpreter.forget(name)

    def delete(self, name: bytes) -> None:
        """Delete a library. Raise CommandError if the name is unknown."""
        if self._ctx.changes.replaying:
            self._remove(name)
            return
        self._read()
        library = self._libraries.get(name)
        if library is None:
            raise CommandError(scripting.LIBRARY_NOT_FOUND)
        self._drop(library)

    def flush(self) -> None:
        """Delete all libraries."""
        self._unread.clear()
        self._unusable.clear()
        self._libraries.clear()
        self._functions.clear()
        self._scripts.leave(self._interpreter)
        self._interpreter = None

    def restore(self, codes: list[bytes], *, replace: bool) -> None:
        """Add all libraries or none. Raise CommandError if one cannot be added."""
        if self._ctx.changes.replaying:
            for code in codes:
                self._note(code)
            return
        self._read()
        names = {_metadata(code)[0] for code in codes}
        if not replace:
            for name in names & self._libraries.keys():
                raise CommandError(scripting.restored_exists(name))
        before = [library.code for library in self._libraries.values() if library.name in names]
        done: list[bytes] = []
        try:
            for code in codes:
                name = self._load(code, replace=replace)
                done.append(name)
        except CommandError:
            for name in done:
                self._drop(self._libraries[name])
            for code in before:
                self._load(code, replace=True)
            raise

    # -- files ------------------------------------------------------------------------------------------------------

    def restore_later(self, codes: Iterable[bytes]) -> None:
        """Register a file's libraries; their code runs on first use."""
        self._unread += codes

    def _note(self, code: bytes) -> bytes:
        """Register a library from a log or a master, replacing any library of this name; return the name."""
        name, _ = _metadata(code)
        self._remove(name)
        self._unread.append(code)
        return name

    def _remove(self, name: bytes) -> None:
        for codes in (self._unread, self._unusable):
            codes[:] = [code for code in codes if _name(code) != name]
        if name in self._libraries:
            self._drop(self._libraries[name])

    def _read(self) -> None:
        if not self._unread:
            return
        self._made()
        unread, self._unread = self._unread, []
        for code in unread:
            try:
                self._load(code, replace=True)
            except CommandError as error:
                # The code is still written to files, because another release may support it.
                self._unusable.append(code)
                self._ctx.host.script_log(3, b"a library of functions cannot be used: " + error.text)

    # -- calls ------------------------------------------------------------------------------------------------------

    def find(self, name: bytes) -> bool:
        """Return whether a function exists."""
        self._read()
        return name.lower() in self._functions

    def flags_of(self, argv: list[bytes]) -> Flags | None:
        """Return the flags of the function that the FCALL in ``argv`` would run; None if it does not exist."""
        return self._functions[argv[1].lower()].flags if self.find(argv[1]) else None

    def run(self, ctx: Context, argv: list[bytes], count: int, *, read_only: bool) -> Reply:
        """Run a function. ``argv`` are the words of FCALL, with ``count`` keys."""
        function = self._functions[argv[1].lower()]
        interpreter = self._made()
        name, flags = function.name, function.flags
        return self._scripts.run(ctx, argv, count, name, flags, interpreter, read_only, is_function=True)


def _name(code: bytes) -> bytes | None:
    """Return a library's name; None if the code does not contain one."""
    try:
        return _metadata(code)[0]
    except CommandError:
        return None


def _metadata(code: bytes) -> tuple[bytes, bytes]:
    """Return a library's name, and its Lua code with unchanged line numbers."""
    if not code.startswith(b"#!"):
        raise CommandError(scripting.NO_METADATA)
    line, newline, _ = code.partition(b"\n")
    words = split_words(line) if newline else None
    if not words:
        raise CommandError(scripting.BAD_METADATA)
    name: bytes | None = None
    for word in words[1:]:
        if word[:5].lower() != b"name=":
            raise CommandError(scripting.bad_metadata(word))
        if name is not None:
            raise CommandError(scripting.NAME_TWICE)
        name = word[5:]
    if name is None:
        raise CommandError(scripting.NO_NAME)
    if not _NAME.fullmatch(name):
        raise CommandError(scripting.BAD_NAME)
    if words[0][2:].lower() != b"lua":
        raise CommandError(scripting.engine_not_found(words[0][2:]))
    return name, code[len(line) :]
