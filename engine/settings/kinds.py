"""Kinds of directive values: each parses and checks words, and returns a value as CONFIG GET shows it.

Values are parsed once, when they are set, and stored in the type that their kind's comment names. Errors have Redis's
messages. CONFIG SET and errors at startup quote these messages. The last kinds are for one directive each: keyspace
events, save points, output limits and a master.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.text import messages

I32_MAX = (1 << 31) - 1
I64_MAX = (1 << 63) - 1
_INTEGERS = range(-I64_MAX - 1, I64_MAX + 1)


class ConfigError(ValueError):
    """A directive or value is rejected, or cannot be applied; the text is the reason."""


class Kind(NamedTuple):
    """A kind of value."""

    #: Returns the value of words, given the value in force. Raises ConfigError.
    parse: Callable[[Sequence[bytes], Any], Any]
    #: Returns a value as CONFIG GET shows it.
    text: Callable[[Any], bytes]
    #: Whether a value may consist of more than one word.
    several_words: bool = False
    #: The allowed values, for the documentation.
    values: str = ""


def _of_word(parse_word: Callable[[bytes], Any], text: Callable[[Any], bytes] = bytes, values: str = "") -> Kind:
    """Return the kind of values that are one word."""

    def parse(words: Sequence[bytes], before: Any) -> Any:  # noqa: ARG001 - one word replaces the value
        if len(words) != 1:
            raise ConfigError(messages.WRONG_NUMBER)
        return parse_word(words[0])

    return Kind(parse, text, values=values)


# -- numbers ----------------------------------------------------------------------------------------------------------


def _checked(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ConfigError(messages.not_between(low, high))
    return value


def integer(low: int, high: int) -> Kind:
    """Return the kind of decimal numbers in this range: int."""

    def parse(word: bytes) -> int:
        if not re.fullmatch(rb"-?(0|[1-9][0-9]{0,19})", word) or word == b"-0" or int(word) not in _INTEGERS:
            raise ConfigError("argument couldn't be parsed into an integer")
        return _checked(int(word), low, high)

    has_bound = high not in (I32_MAX, (1 << 32) - 1, I64_MAX)
    return _of_word(parse, b"%d".__mod__, f"{low}..{high}" if has_bound else f"≥{low}")


_UNITS = {b"": 1, b"b": 1, b"k": 1000, b"kb": 1 << 10, b"m": 10**6, b"mb": 1 << 20, b"g": 10**9, b"gb": 1 << 30}


def parse_memory(word: bytes) -> int:
    """Return a size in bytes, given as digits and an optional unit (``k`` is 1000, ``kb`` 1024).

    As in Redis, an empty word is 0.
    """
    if not word:
        return 0
    found = re.fullmatch(rb"([0-9]{1,127})([a-zA-Z]*)", word)
    unit = _UNITS.get(found.group(2).lower()) if found else None
    if found is None or unit is None:
        raise ConfigError("argument must be a memory value")
    return int(found.group(1)) * unit


def memory(low: int = 0) -> Kind:
    """Return the kind of sizes in bytes: int."""
    return _of_word(lambda word: _checked(parse_memory(word), low, I64_MAX), b"%d".__mod__, "bytes")


def octal(high: int) -> Kind:
    """Return the kind of octal numbers, such as a file's permissions: int."""

    def parse(word: bytes) -> int:
        if not re.fullmatch(rb"-?[0-7]{1,20}", word):
            raise ConfigError("argument couldn't be parsed as an octal number")
        value = int(word, 8)
        if not 0 <= value <= high:
            raise ConfigError(messages.not_between(0, f"{high:o}"))
        return value

    return _of_word(parse, b"%o".__mod__)


# -- words ------------------------------------------------------------------------------------------------------------


def _parse_yes_no(word: bytes) -> bool:
    if word.lower() not in (b"yes", b"no"):
        raise ConfigError("argument must be 'yes' or 'no'")
    return word.lower() == b"yes"


#: yes or no: bool.
YES_NO = _of_word(_parse_yes_no, lambda value: b"yes" if value else b"no")
#: Any text: bytes.
TEXT = _of_word(bytes)


def choice(values: str) -> Kind:
    """Return the kind of values that are one of these words, in any case: bytes, spelled as here."""
    spelled = {word.lower().encode(): word.encode() for word in values.split()}

    def parse(word: bytes) -> bytes:
        if word.lower() not in spelled:
            raise ConfigError("argument(s) must be one of the following: " + ", ".join(values.split()))
        return spelled[word.lower()]

    return _of_word(parse, values=values)


def file_name(directive: str, kind: str) -> Kind:
    """Return the kind of names that are not a path: bytes. ``kind``: "filename" or "dirname", for the error."""

    def parse(word: bytes) -> bytes:
        if b"/" in word or b"\\" in word or word in (b"", b".", b".."):
            raise ConfigError(f"{directive} can't be a path, just a {kind}")
        return word

    return _of_word(parse)


#: Several words: a tuple of bytes.
WORDS = Kind(lambda words, _: tuple(filter(None, words)), b" ".join, several_words=True)


# -- events -----------------------------------------------------------------------------------------------------------

#: Letters of notify-keyspace-events that ``A`` includes, in the order in which Redis shows them.
EVENT_CLASSES = "g$lshzxetd"


@dataclass(frozen=True, slots=True)
class Events:
    """Value of notify-keyspace-events: the letters in force, with ``A`` expanded, and the text that CONFIG GET shows.

    As in Redis, the text omits ``n``, ``o`` and ``c`` next to ``A``, even if they are in force.
    """

    letters: frozenset[str]
    shown: bytes


def _parse_events(word: bytes) -> Events:
    given = word.decode("latin-1")
    if set(given) - set("Ag$lshzxeKEtmdnoc"):
        raise ConfigError("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")
    chosen = set(given) | (set(EVENT_CLASSES) if "A" in given else set())
    if set(EVENT_CLASSES) <= chosen:
        shown = "A"
    else:
        shown = "".join(letter for letter in f"{EVENT_CLASSES}noc" if letter in chosen)
    shown += "".join(letter for letter in "KEm" if letter in chosen)
    return Events(frozenset(chosen - {"A"}), shown.encode())


#: The kind of notify-keyspace-events: ``Events``.
EVENTS = _of_word(_parse_events, lambda events: bytes(events.shown))


# -- save points ------------------------------------------------------------------------------------------------------

#: A number with at least this many digits is rejected, because Python rejects numbers of thousands of digits.
_DIGITS = 128


class SavePoint(NamedTuple):
    """A snapshot is due after ``seconds`` if there were at least ``changes`` changes."""

    seconds: int
    changes: int


def _parse_save_points(words: Sequence[bytes], before: Any) -> tuple[SavePoint, ...]:  # noqa: ARG001 - replaced
    if list(words) == [b""]:
        return ()
    if len(words) % 2 or not all(word.isdigit() and len(word) < _DIGITS for word in words):
        raise ConfigError(messages.SAVE_POINTS)
    points = tuple(SavePoint(int(words[at]), int(words[at + 1])) for at in range(0, len(words), 2))
    if not all(point.seconds for point in points):
        raise ConfigError(messages.SAVE_POINTS)
    return points


#: The kind of save: a tuple of ``SavePoint``.
SAVE_POINTS = Kind(
    _parse_save_points, lambda points: b" ".join(b"%d %d" % point for point in points), several_words=True
)


# -- output limits ----------------------------------------------------------------------------------------------------


class OutputLimit(NamedTuple):
    """Limits of a client's unread bytes. A limit of 0 means no limit.

    A client is disconnected when it reaches ``hard``, or after ``seconds`` at ``soft`` or above.
    """

    hard: int
    soft: int
    seconds: int


#: The classes of clients in client-output-buffer-limit, in Redis's order.
_CLIENT_CLASSES = (b"normal", b"slave", b"pubsub")


def _parse_limits(words: Sequence[bytes], before: dict[bytes, OutputLimit]) -> dict[bytes, OutputLimit]:
    limits = dict(before)
    if len(words) % 4:
        raise ConfigError("Wrong number of arguments in buffer limit configuration.")
    for at in range(0, len(words), 4):
        name = b"slave" if words[at].lower() == b"replica" else words[at].lower()
        if name not in _CLIENT_CLASSES:
            raise ConfigError("Invalid client class specified in buffer limit configuration.")
        if not words[at + 3].removeprefix(b"+").isdigit():
            raise ConfigError(messages.LIMIT_VALUES)
        try:
            hard, soft = map(parse_memory, words[at + 1 : at + 3])
            limits[name] = OutputLimit(hard, soft, int(words[at + 3]))
        except ValueError:
            raise ConfigError(messages.LIMIT_VALUES) from None
    return limits


#: The kind of client-output-buffer-limit: a dictionary from class of clients to ``OutputLimit``. Classes that are not
#: named keep their limits.
OUTPUT_LIMITS = Kind(
    _parse_limits,
    lambda limits: b" ".join(b"%b %d %d %d" % (name, *limits[name]) for name in _CLIENT_CLASSES),
    several_words=True,
)


# -- a master ---------------------------------------------------------------------------------------------------------


def _parse_master(words: Sequence[bytes], before: Any) -> tuple[bytes, ...]:  # noqa: ARG001 - replaced
    host, *port = [word for word in words if word] or [b"no", b"one"]
    if len(port) != 1:
        raise ConfigError(messages.WRONG_NUMBER)
    if (host.lower(), port[0].lower()) == (b"no", b"one"):
        return ()
    if not port[0].isdigit() or not 0 <= int(port[0][:20]) <= 65535:
        raise ConfigError("Invalid master port")
    return host, port[0]


#: The address of a master: a tuple of host and port, as bytes. It is empty for no words, or for ``no one``.
MASTER = Kind(_parse_master, b" ".join, several_words=True)
