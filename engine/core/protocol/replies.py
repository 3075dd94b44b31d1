"""Replies of commands before they are encoded.

    int                 integer
    bytes               bulk string
    float               double (RESP2: bulk string)
    None                nil (RESP2: null bulk string)
    NIL_ARRAY           nil that is the null array in RESP2
    Simple              simple string
    Verbatim            text (RESP2: bulk string)
    list, tuple         array
    Array               array whose items may include Several: many values that are already encoded
    Map                 flat [key, value, ...] (RESP2: the same as an array); Map.of converts a dictionary
    ByKey               pairs of key and value (RESP2: an array of arrays)
    Set                 unordered (RESP2: array)
    Push                out-of-band message (RESP2: array)
    Raw                 one already encoded value, equal in both protocols
    Frames              an array of entries as slices of segments: already encoded, except the header
    Pages               a long list, Map, Set, ByKey, Raw or bytes, built page by page while other clients are served
    CommandError        error
    Steps               no reply yet: the command continues in the next event-loop iterations
    BLOCKED             no reply now: the client waits
    NO_REPLY            no reply at all

The encoder is ``engine.wire.encode``. Commands build protocol bytes themselves only for large values and for entries,
whose frames are already encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, starmap
from typing import Any, Final, TypeVar

from engine.core.protocol import pace

Reply = Any
S = TypeVar("S")
T = TypeVar("T")


class CommandError(Exception):
    """An error reply. ``args[0]`` is the text after the ``-``, as bytes that start with the code."""

    @property
    def text(self) -> bytes:
        """The text of the reply, without ``-`` and line end."""
        message: bytes = self.args[0]
        return message

    def as_reply(self) -> CommandError:
        """Return the error without its traceback and causes.

        An error and its traceback reference each other, which would keep the command's words in memory until
        a garbage collection.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self


class Simple(bytes):
    """A simple string (``+OK``)."""


class Verbatim(bytes):
    """Human-readable text (INFO, CLIENT LIST): a verbatim string of format txt in RESP3."""


class Map(list[Any]):
    """A flat list of keys and values, in order."""

    @classmethod
    def of(cls, pairs: Mapping[bytes, Any]) -> Map:
        """Create a Map from a dictionary."""
        return cls(part for pair in pairs.items() for part in pair)


class Set(list[Any]):
    """A set: unordered, without duplicates."""


class Push(list[Any]):
    """An out-of-band message, whose first element is its kind."""


class Raw(bytes):
    """Exactly one encoded value."""


class Frames:
    """``count`` entries whose frames are the concatenation of ``parts`` (bytes or memoryviews of immutable buffers)."""

    __slots__ = ("count", "parts")

    def __init__(self, count: int, parts: Sequence[bytes | memoryview]) -> None:
        self.count = count
        self.parts = parts


class ByKey(list[Any]):
    """Results by key: pairs of key and value, a map in RESP3 and an array of pairs in RESP2."""


class Several:
    """``count`` encoded values of an ``Array``: the concatenation of ``parts``."""

    __slots__ = ("count", "parts")

    def __init__(self, count: int, parts: Sequence[bytes | memoryview]) -> None:
        self.count = count
        self.parts = parts


class Array(list[Any]):
    """An array in which a ``Several`` counts as its number of values."""


class Pages:
    """A long reply of one ``kind`` (list, Map, Set or ByKey) with ``size`` elements, built page by page.

    With the kind ``bytes``, the reply is one bulk string of ``size`` bytes, and the pages contain these bytes and the
    line end as ``Several``. With the kind Raw, the reply has no header, only elements.

    Other clients' commands run between two pages, so the data that ``pages`` reads must not change after the command
    returns. A page has a few thousand elements at most, depending on their cost. An element can be Pages or a
    ``Several``. ``held``: bytes of entries and values in memory that the reply keeps alive until its last page. It
    counts as unread output.
    """

    __slots__ = ("held", "kind", "pages", "size")

    def __init__(
        self, kind: type[list[Any] | bytes], size: int, pages: Iterator[Sequence[Reply]], held: int = 0
    ) -> None:
        self.kind = kind
        self.size = size
        self.pages = pages
        self.held = held


def held_by(replies: Iterable[Reply]) -> int:
    """Return the bytes of entries and values that the replies of a long reply keep alive."""
    held = 0
    for reply in replies:
        if isinstance(reply, bytes):
            held += len(reply)
        elif isinstance(reply, Pages):
            held += reply.held
        elif isinstance(reply, (Frames, Several)):
            held += sum(map(len, reply.parts))
    return held


@dataclass(slots=True, eq=False, repr=False)
class Steps:
    """A command that runs in steps, with other clients' commands in between; the generator returns the reply.

    ``argv`` are the command's words, ``spent_ns`` the nanoseconds spent so far. The changes of each step are logged
    when the step ends. ``engine.core.environment.divided_commands`` keeps other clients away from the keys.
    """

    argv: list[bytes]
    work: Generator[None, None, Reply]
    spent_ns: int = 0
    #: The session of the client.
    session: Any = None
    #: Time of all steps in microseconds since the epoch.
    now_us: int = 0
    #: The held keys.
    keys: frozenset[bytes] = frozenset()
    #: The keys that are held against all use; the others are held against changes.
    closed: frozenset[bytes] = frozenset()
    #: Whether a step has run.
    is_started: bool = False
    #: Whether all steps have run, so that ``reply`` is set.
    is_over: bool = False
    reply: Reply = None

    def next(self) -> Reply:
        """Run a step; return the reply, or this object if there are more steps."""
        self.is_started = True
        try:
            next(self.work)
        except StopIteration as end:
            return end.value
        return self


def at_once(work: Generator[None, None, T]) -> T:
    """Run all steps of a generator; return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def paged(items: list[Reply]) -> Reply:
    """Return a list, Map or Set of simple elements as a reply, in pages if it is long.

    Callers must not reuse ``items``.
    """
    return items if len(items) <= pace.MANY_WORDS else Pages(type(items), len(items), _parts(items))


def _parts(items: list[Reply]) -> Iterator[list[Reply]]:
    """Yield parts of a list and free each one, because freeing the whole list at the end would block the server."""
    items.reverse()
    while items:
        part = items[: -pace.PAGE_WORDS - 1 : -1]
        del items[-pace.PAGE_WORDS :]
        yield part


def rows_in_pages(size: int, items: Iterable[tuple[S, T]], row: Callable[[S, T], Reply]) -> Reply:
    """Return a list of ``row(*item)`` for the first ``size`` items, in pages if it is long."""
    rows = starmap(row, islice(items, size))
    if size <= pace.PAGE_ROWS:
        return list(rows)
    return Pages(list, size, iter(lambda: list(islice(rows, pace.PAGE_ROWS)), []))


def holding(items: list[Reply]) -> Reply:
    """Return a list, Map or Set as a reply, converted to Pages if one of its elements is Pages."""
    return Pages(type(items), len(items), iter([items]), held_by(items)) if Pages in map(type, items) else items


class _Marker:
    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


NIL_ARRAY: Final = _Marker("NIL_ARRAY")
BLOCKED: Final = _Marker("BLOCKED")
NO_REPLY: Final = _Marker("NO_REPLY")

OK: Final = Simple(b"OK")
QUEUED: Final = Simple(b"QUEUED")
PONG: Final = Simple(b"PONG")
