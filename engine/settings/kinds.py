"""The kinds of values that directives have: each parses words, checks them, and shows a value as CONFIG GET does.

Values are parsed once, when they come in, and kept typed; every kind says which type that is. An error says what is
wrong in Redis's words, which CONFIG SET and the start-up error both quote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from engine.text.messages import settings

I32_MAX = (1 << 31) - 1
I64_MAX = (1 << 63) - 1
_INTEGERS = range(-(1 << 63), 1 << 64)


class ConfigError(ValueError):
    """A directive or a value that is refused; the text says why, as Redis says it."""


class Kind(Protocol):
    """A kind of value."""

    @property
    def several_words(self) -> bool:
        """Whether a value may consist of more than one word."""

    def parse(self, words: Sequence[bytes], before: Any) -> Any:
        """The value that ``words`` spell. ``before`` is the value in force. Raises ConfigError."""

    def text(self, value: Any) -> bytes:
        """The value as CONFIG GET shows it."""


class OneWord:
    """The base of kinds whose values are one word. They have ``parse_word`` in place of ``parse``."""

    several_words = False

    def parse(self, words: Sequence[bytes], before: Any) -> Any:
        """See :class:`Kind`."""
        del before
        if len(words) != 1:
            raise ConfigError(settings.WRONG_NUMBER)
        return self.parse_word(words[0])

    def parse_word(self, word: bytes) -> Any:
        """The value that ``word`` spells. Raises ConfigError."""
        raise NotImplementedError


# -- numbers ----------------------------------------------------------------------------------------------------------


def _check_range(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ConfigError(settings.not_between(low, high))
    return value


@dataclass(frozen=True, slots=True)
class Integer(OneWord):
    """A decimal number: int."""

    low: int
    high: int

    def parse_word(self, word: bytes) -> int:
        """See :class:`OneWord`."""
        if not re.fullmatch(rb"-?(0|[1-9][0-9]{0,19})", word) or word == b"-0" or int(word) not in _INTEGERS:
            raise ConfigError(settings.NOT_AN_INTEGER)
        return _check_range(int(word), self.low, self.high)

    def text(self, value: int) -> bytes:
        """See :class:`Kind`."""
        return b"%d" % value


_UNITS = {b"": 1, b"b": 1, b"k": 1000, b"kb": 1 << 10, b"m": 10**6, b"mb": 1 << 20, b"g": 10**9, b"gb": 1 << 30}


def parse_memory(word: bytes) -> int:
    """A size in bytes: digits, with a unit or without (``k`` is 1000, ``kb`` 1024). Empty is 0, as with Redis."""
    if not word:
        return 0
    found = re.fullmatch(rb"([0-9]{1,127})([a-zA-Z]*)", word)
    unit = _UNITS.get(found.group(2).lower()) if found else None
    if found is None or unit is None:
        raise ConfigError(settings.NOT_MEMORY)
    return int(found.group(1)) * unit


@dataclass(frozen=True, slots=True)
class Memory(OneWord):
    """A size in bytes: int."""

    low: int

    def parse_word(self, word: bytes) -> int:
        """See :class:`OneWord`."""
        return _check_range(parse_memory(word), self.low, I64_MAX)

    def text(self, value: int) -> bytes:
        """See :class:`Kind`."""
        return b"%d" % value


@dataclass(frozen=True, slots=True)
class Octal(OneWord):
    """An octal number, such as a file's permissions: int."""

    high: int

    def parse_word(self, word: bytes) -> int:
        """See :class:`OneWord`."""
        try:
            value = int(word, 8)
        except ValueError:
            raise ConfigError(settings.NOT_OCTAL) from None
        if not 0 <= value <= self.high:
            raise ConfigError(settings.not_between(0, f"{self.high:o}"))
        return value

    def text(self, value: int) -> bytes:
        """See :class:`Kind`."""
        return b"%o" % value


# -- words ------------------------------------------------------------------------------------------------------------


class YesNo(OneWord):
    """yes or no: bool."""

    def parse_word(self, word: bytes) -> bool:
        """See :class:`OneWord`."""
        if word.lower() not in (b"yes", b"no"):
            raise ConfigError(settings.NOT_YES_OR_NO)
        return word.lower() == b"yes"

    def text(self, value: bool) -> bytes:
        """See :class:`Kind`."""
        return b"yes" if value else b"no"


class _Shown(OneWord):
    """The base of kinds whose values are the bytes that are shown."""

    def text(self, value: bytes) -> bytes:
        """See :class:`Kind`."""
        return value


@dataclass(frozen=True, slots=True)
class Choice(_Shown):
    """One of several words, in any case: bytes, in lower case."""

    choices: tuple[str, ...]

    def parse_word(self, word: bytes) -> bytes:
        """See :class:`OneWord`."""
        if word.lower().decode("latin-1") not in self.choices:
            raise ConfigError(settings.not_one_of(self.choices))
        return word.lower()


@dataclass(frozen=True, slots=True)
class Text(_Shown):
    """Any text that ``check`` does not refuse: bytes."""

    check: Callable[[bytes], None] | None = None

    def parse_word(self, word: bytes) -> bytes:
        """See :class:`OneWord`."""
        if self.check is not None:
            self.check(word)
        return word


def file_name(directive: str, what: str) -> Callable[[bytes], None]:
    """A check for :class:`Text`: a name without a path. ``what`` is "filename" or "dirname", for the error."""

    def check(word: bytes) -> None:
        if b"/" in word or word in (b".", b".."):
            raise ConfigError(settings.not_a_name(directive, what))

    return check


def host_name(word: bytes) -> None:
    """A check for :class:`Text`: the name of a host."""
    if not re.fullmatch(rb"[A-Za-z0-9.-]*", word):
        raise ConfigError(settings.NOT_A_HOST_NAME)


class MemoryOrPercent(_Shown):
    """A size in bytes, or a percentage of maxmemory: the word, ``100000`` or ``50%``."""

    def parse_word(self, word: bytes) -> bytes:
        """See :class:`OneWord`."""
        if re.fullmatch(rb"[0-9]{1,3}%", word):
            return word
        try:
            return b"%d" % parse_memory(word)
        except ConfigError:
            raise ConfigError(settings.NOT_MEMORY_OR_PERCENT) from None


@dataclass(frozen=True, slots=True)
class Words:
    """Some words, ``count`` of them if that is given: a tuple of bytes."""

    count: int | None = None
    several_words = True

    def parse(self, words: Sequence[bytes], before: Any) -> tuple[bytes, ...]:
        """See :class:`Kind`."""
        del before
        if self.count is not None and len(words) != self.count:
            raise ConfigError(settings.WRONG_NUMBER)
        return tuple(filter(None, words))

    def text(self, value: tuple[bytes, ...]) -> bytes:
        """See :class:`Kind`."""
        return b" ".join(value)


@dataclass(frozen=True, slots=True)
class Master:
    """The host and the port of a master, as two words of bytes; none of both, or ``no one``: the empty tuple."""

    several_words = True

    def parse(self, words: Sequence[bytes], before: Any) -> tuple[bytes, ...]:
        """See :class:`Kind`."""
        del before
        host, *port = [word for word in words if word] or [b"no", b"one"]
        if len(port) != 1:
            raise ConfigError(settings.WRONG_NUMBER)
        if (host.lower(), port[0].lower()) == (b"no", b"one"):
            return ()
        if not port[0].isdigit() or not 0 <= int(port[0][:20]) <= 65535:
            raise ConfigError(settings.INVALID_MASTER_PORT)
        return host, port[0]

    def text(self, value: tuple[bytes, ...]) -> bytes:
        """See :class:`Kind`."""
        return b" ".join(value)


@dataclass(frozen=True, slots=True)
class OnlyAsItIs:
    """A value of ``kind`` of which the engine can honour ``values`` alone; for others the error is ``why``."""

    kind: Kind
    values: tuple[Any, ...]
    why: str

    @property
    def several_words(self) -> bool:
        """See :class:`Kind`."""
        return self.kind.several_words

    def parse(self, words: Sequence[bytes], before: Any) -> Any:
        """See :class:`Kind`."""
        value = self.kind.parse(words, before)
        if value not in self.values:
            raise ConfigError(self.why)
        return value

    def text(self, value: Any) -> bytes:
        """See :class:`Kind`."""
        return self.kind.text(value)


# -- kinds of one directive each --------------------------------------------------------------------------------------

#: The letters of notify-keyspace-events, in the order in which Redis shows them; A stands for the first ten.
EVENT_CLASSES = "g$lshzxetd"


@dataclass(frozen=True, slots=True)
class Events:
    """notify-keyspace-events: the letters in force, with ``A`` written out, and how CONFIG GET shows them.

    What is shown does not follow from the letters: beside ``A`` it leaves out an ``n`` that is in force.
    """

    letters: frozenset[str]
    shown: bytes


class EventLetters(OneWord):
    """The kind of notify-keyspace-events: :class:`Events`."""

    def parse_word(self, word: bytes) -> Events:
        """See :class:`OneWord`."""
        given = word.decode("latin-1")
        if set(given) - set("Ag$lshzxeKEtmdn"):
            raise ConfigError(settings.EVENT_LETTERS)
        chosen = set(given) | (set(EVENT_CLASSES) if "A" in given else set())
        if set(EVENT_CLASSES) <= chosen:
            shown = "A"
        else:
            shown = "".join(letter for letter in EVENT_CLASSES if letter in chosen) + ("n" if "n" in chosen else "")
        shown += "".join(letter for letter in "KEm" if letter in chosen)
        return Events(frozenset(chosen - {"A"}), shown.encode())

    def text(self, value: Events) -> bytes:
        """See :class:`Kind`."""
        return value.shown


#: Python refuses to read numbers of thousands of digits; no directive needs as many as this.
_DIGITS = 128


class SavePoint(NamedTuple):
    """A snapshot is due after so many seconds, if there were so many changes."""

    seconds: int
    changes: int


class SavePoints:
    """The kind of save: a tuple of :class:`SavePoint`."""

    several_words = True

    def parse(self, words: Sequence[bytes], before: Any) -> tuple[SavePoint, ...]:
        """See :class:`Kind`."""
        del before
        if list(words) == [b""]:
            return ()
        if len(words) % 2 or not all(word.isdigit() and len(word) < _DIGITS for word in words):
            raise ConfigError(settings.SAVE_POINTS)
        points = tuple(SavePoint(int(words[at]), int(words[at + 1])) for at in range(0, len(words), 2))
        if not all(point.seconds for point in points):
            raise ConfigError(settings.SAVE_POINTS)
        return points

    def text(self, value: tuple[SavePoint, ...]) -> bytes:
        """See :class:`Kind`."""
        return b" ".join(b"%d %d" % point for point in value)


class OutputLimit(NamedTuple):
    """When a client is disconnected that does not read: at ``hard`` bytes, or ``seconds`` above ``soft``; 0: never."""

    hard: int
    soft: int
    seconds: int


#: The classes of clients in client-output-buffer-limit, in Redis's order.
CLIENT_CLASSES = (b"normal", b"slave", b"pubsub")


class OutputLimits:
    """The kind of client-output-buffer-limit: class of clients -> :class:`OutputLimit`. Classes left out stay."""

    several_words = True

    def parse(self, words: Sequence[bytes], before: dict[bytes, OutputLimit]) -> dict[bytes, OutputLimit]:
        """See :class:`Kind`."""
        limits = dict(before)
        if len(words) % 4:
            raise ConfigError(settings.LIMIT_NUMBER)
        for at in range(0, len(words), 4):
            name = b"slave" if words[at].lower() == b"replica" else words[at].lower()
            if name not in CLIENT_CLASSES:
                raise ConfigError(settings.LIMIT_CLASS)
            try:
                limit = OutputLimit(parse_memory(words[at + 1]), parse_memory(words[at + 2]), int(words[at + 3]))
            except ValueError:
                limit = OutputLimit(0, 0, -1)
            if limit.seconds < 0:
                raise ConfigError(settings.LIMIT_VALUES)
            limits[name] = limit
        return limits

    def text(self, value: dict[bytes, OutputLimit]) -> bytes:
        """See :class:`Kind`."""
        return b" ".join(b"%b %d %d %d" % (name, *value[name]) for name in CLIENT_CLASSES)


class Percentiles:
    """The kind of latency-tracking-info-percentiles: a tuple of float, each from 0 to 100."""

    several_words = True

    def parse(self, words: Sequence[bytes], before: Any) -> tuple[float, ...]:
        """See :class:`Kind`."""
        del before
        try:
            numbers = tuple(map(float, words))
        except ValueError:
            numbers = (-1.0,)
        if not all(0 <= number <= 100 for number in numbers):
            raise ConfigError(settings.PERCENTILES)
        return numbers

    def text(self, value: tuple[float, ...]) -> bytes:
        """See :class:`Kind`."""
        return b" ".join(b"%g" % number for number in value)
