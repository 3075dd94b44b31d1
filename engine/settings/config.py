"""The configuration in force: the defaults, changed by a file, flags and CONFIG SET.

Names and values are redis.conf's (``engine.settings.directives`` has the table). Values are parsed and checked when
they are set; look-ups return them typed. Parts of the engine that must act on a change register a listener with
``Config.on_change``; if a listener raises ConfigError, the whole CONFIG SET is undone.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from engine.settings.directives import ALIASES, DIRECTIVES, IGNORED, Directive
from engine.settings.kinds import ConfigError
from engine.text import messages
from engine.text.globs import matcher
from engine.text.words import quote, split_words

Listener = Callable[[], None]
_T = TypeVar("_T")


def directive(name: str) -> Directive:
    """Return the directive with this name or alias, in any case. Raises ConfigError if it is unknown."""
    lower = name.lower()
    found = DIRECTIVES.get(ALIASES.get(lower, lower))
    if found is None:
        near = difflib.get_close_matches(lower, [*DIRECTIVES, *ALIASES, *IGNORED], 1, 0.75)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise ConfigError(f"unknown directive '{name}'{hint}")
    return found


class Config:
    """Values of all directives. Look-ups accept no aliases, and are nearly as fast as those of a dictionary."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {name: definition.default for name, definition in DIRECTIVES.items()}
        self._listeners: dict[str, list[Listener]] = {}
        #: Path of the configuration file, for CONFIG REWRITE; None if the engine was started without a file.
        self.file: Path | None = None
        #: Names of given directives that have no effect on this engine, in order.
        self.ignored: list[str] = []
        #: The file's ``user`` lines, each as [name, rule, ...].
        self.users: list[list[bytes]] = []
        #: Function that returns the current ``user`` lines for CONFIG REWRITE.
        self.shown_users: Callable[[], list[bytes]] = list

    # -- look-ups ---------------------------------------------------------------------------------------------------

    def integer(self, name: str) -> int:
        """Return the value of a directive that is a number, or a size in bytes."""
        value = self._values[name]
        assert isinstance(value, int), name
        return value

    def flag(self, name: str) -> bool:
        """Return the value of a yes-or-no directive."""
        return self._values[name] is True

    def text(self, name: str) -> bytes:
        """Return the value of a directive as CONFIG GET shows it."""
        value = self._values[name]
        return value if isinstance(value, bytes) else DIRECTIVES[name].kind.text(value)

    def value(self, name: str, kind: type[_T]) -> _T:
        """Return the value of a directive. ``kind`` is the value's Python type (see the docstring of its Kind)."""
        value = self._values[name]
        assert isinstance(value, kind), name
        return value

    def find(self, patterns: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
        """Return (name, value as text) of each directive whose name or alias matches one of ``patterns``.

        A pattern without wildcards is returned as the name, in the given case.
        """
        found: dict[bytes, bytes] = {}
        for pattern in patterns:
            if not any(char in pattern for char in b"*?["):
                name = pattern.decode("latin-1").lower()
                first = ALIASES.get(name, name)
                if first in DIRECTIVES:
                    found[pattern] = self.text(first)
                continue
            matches = matcher(pattern, ignore_case=True)
            for name in (*DIRECTIVES, *ALIASES):
                if matches(name.encode()):
                    found[name.encode()] = self.text(ALIASES.get(name, name))
        return list(found.items())

    # -- setting at start ---------------------------------------------------------------------------------------------

    def load(self, arguments: Sequence[str]) -> None:
        """Apply a command line: optionally a file first, then flags, which override the file."""
        rest = list(arguments)
        if rest and not rest[0].startswith("--"):
            self.read_file(Path(rest.pop(0)))
        at = 0
        while at < len(rest):
            if not rest[at].startswith("--") or len(rest[at]) < 3:
                raise ConfigError(f"expected a flag (--directive value ...), got '{rest[at]}'")
            end = at + 1
            while end < len(rest) and not rest[end].startswith("--"):
                end += 1
            # As in Redis, one word may contain the flag and its value: "--maxmemory 700mb".
            name, *more = rest[at][2:].split(maxsplit=1) or [""]
            words = split_words(more[0].encode("utf-8", "surrogateescape")) if more else []
            if words is None:
                raise ConfigError(f"--{name}: unbalanced quotes")
            words += [word.encode("utf-8", "surrogateescape") for word in rest[at + 1 : end]]
            self._put(name, words, f"--{name}")
            at = end

    def read_file(self, path: Path) -> None:
        """Apply a file: a directive on each line, ``#`` for comments, ``include`` for other files."""
        try:
            text = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read the configuration file {path}: {error.strerror}") from None
        self.file = self.file or path.absolute()
        has_save = False
        for number, line in enumerate(text.splitlines(), 1):
            stripped = line.strip()
            if not stripped or stripped.startswith(b"#"):
                continue
            where = f"{path}, line {number}"
            words = split_words(stripped)
            if not words:
                raise ConfigError(f"{where}: unbalanced quotes")
            name = words[0].decode("latin-1").lower()
            if name == "include" and len(words) == 2:
                self.read_file(Path(words[1].decode()))
                continue
            if name == "save":
                if has_save and words[1:] != [b""]:
                    # The first ``save`` line replaces the default, later lines add to it.
                    words = [words[0], *self.text("save").split(), *words[1:]]
                has_save = True
            self._put(name, words[1:], where)

    def _put(self, name: str, words: list[bytes], where: str) -> None:
        if name.lower() == "user" and words:
            self.users.append(words)
            return
        if name.lower() == "rename-command":
            raise ConfigError(f"{where}: rename-command is not supported; ACL rules control who may call which command")
        if name.lower() == "cluster-enabled" and words != [b"no"]:
            raise ConfigError(f"{where}: cluster-enabled: {messages.DIRECTIVE_NO_CLUSTER}")
        if name.lower() in IGNORED:
            if name.lower() not in self.ignored:
                self.ignored.append(name.lower())
            return
        try:
            definition = directive(name)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        if definition.kind.several_words and len(words) == 1:
            # A quoted argument may contain several words, as in `--save "60 1"`.
            words = split_words(words[0]) or [b""]
        if definition.name == "save" and not words:
            words = [b""]
        try:
            if not words:
                raise ConfigError(messages.WRONG_NUMBER)
            self._values[definition.name] = definition.kind.parse(words, self._values[definition.name])
        except ConfigError as error:
            raise ConfigError(f"{where}: {definition.name}: {error}") from None

    def put(self, name: str, word: bytes) -> None:
        """Set a directive to one word, as a line of the file does. Raises ConfigError if the word is rejected."""
        self._put(name, [word], name)

    def note(self, name: str, value: Any) -> None:
        """Set the value that CONFIG shows, in the type of its kind, after a command like REPLICAOF has changed it."""
        self._values[name] = value

    # -- changing at run time -----------------------------------------------------------------------------------------

    def on_change(self, name: str, listener: Listener) -> None:
        """Call ``listener`` after CONFIG SET of ``name``. If it raises ConfigError, all of the CONFIG SET is undone."""
        self._listeners.setdefault(DIRECTIVES[name].name, []).append(listener)

    def change(self, pairs: Sequence[tuple[bytes, bytes]]) -> bytes | None:
        """Set all of ``pairs`` or none (CONFIG SET); return None, or the error reply."""
        named: dict[bytes, Directive] = {}
        for given, _ in pairs:
            name = given.lower()
            text = name.decode("latin-1")
            definition = DIRECTIVES.get(ALIASES.get(text, text))
            if definition is None and text in IGNORED:
                return messages.config_set_failed(given, "the directive has no effect on this engine")
            if definition is None:
                return b"ERR Unknown option or number of arguments for CONFIG SET - '%b'" % given
            if name in named or definition.fixed:
                refusal = "duplicate parameter" if name in named else "can't set immutable config"
                return messages.config_set_failed(given, refusal)
            named[name] = definition
        new: dict[str, Any] = {}
        for (name, definition), (_, word) in zip(named.items(), pairs, strict=True):
            words = [word]
            if definition.kind.several_words:
                split = split_words(word)
                if split is None:
                    return messages.config_set_failed(name, "Unbalanced quotes in configuration line")
                words = split
            try:
                new[definition.name] = definition.kind.parse(words, self._values[definition.name])
            except ConfigError as error:
                return messages.config_set_failed(name, str(error))
        return self._apply(new)

    def _apply(self, new: dict[str, Any]) -> bytes | None:
        old = {name: self._values[name] for name in new}
        self._values.update(new)
        notified: list[Listener] = []
        for name in new:
            for listener in self._listeners.get(name, ()):
                notified.append(listener)
                try:
                    listener()
                except ConfigError as error:
                    self._values.update(old)
                    for again in notified:
                        again()
                    return messages.config_set_failed(name.encode(), str(error))
        return None

    # -- writing ------------------------------------------------------------------------------------------------------

    def rewritten(self, text: bytes) -> bytes:
        """Return the file's ``text`` with the values in force. Comments and order are kept; new lines are appended."""
        done: set[str] = set()
        lines: list[bytes] = []
        for line in text.splitlines():
            words = None if line.lstrip().startswith(b"#") else split_words(line)
            name = words[0].decode("latin-1").lower() if words else ""
            name = ALIASES.get(name, name)
            if name == "user":
                if name not in done:
                    lines += self.shown_users()
                done.add(name)
            elif name not in DIRECTIVES:
                lines.append(line)
            elif name not in done:
                done.add(name)
                # Omit replicaof without a master: Redis would reject it in the file.
                if name != "replicaof" or self._values[name]:
                    lines.append(self._line(name))
        if "user" not in done:
            lines += self.shown_users()
        for name, definition in DIRECTIVES.items():
            if name not in done and self._values[name] != definition.default:
                lines.append(self._line(name))
        return b"\n".join(lines) + b"\n"

    def _line(self, name: str) -> bytes:
        value = self.text(name)
        plain = value.isalnum() or (value and DIRECTIVES[name].kind.several_words)
        return name.encode() + b" " + (value if plain else quote(value))
