"""What a command answers, before it is bytes.

    int                 integer
    bytes               bulk string
    float               double (RESP2: bulk string)
    None                nil (RESP2: null bulk string)
    NIL_ARRAY           nil where RESP2 wants the null array
    Simple              simple string
    Verbatim            text (RESP2: bulk string)
    list, tuple         array
    Array               array, some of whose items may be Several: many values that are wire bytes already
    Map                 flat [key, value, ...] (RESP2: the same as an array); Map.of makes one of a dictionary
    ByKey               pairs of key and value (RESP2: an array of arrays)
    Set                 unordered (RESP2: array)
    Push                out-of-band message (RESP2: array)
    Raw                 one value that is wire bytes already, equal in both protocols
    Frames              an array of entries as slices of segments: the bytes are in place, only the header is missing
    Pages               a long list, Map, Set or ByKey, made page by page while other clients are served
    CommandError        error
    Steps               no reply yet: the command goes on in the next event-loop iterations
    BLOCKED             no reply now: the client waits
    NO_REPLY            no reply at all

The encoder is :mod:`engine.wire.encode`; a command never makes protocol bytes itself, but for frames.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice, starmap
from typing import Any, Final, TypeVar

Reply = Any
S = TypeVar("S")
T = TypeVar("T")


class CommandError(Exception):
    """An error reply. ``args[0]`` is the text behind the ``-``, as bytes, code first (``b"ERR syntax error"``)."""

    #: It has been counted with the command that caused it.
    counted = False

    @property
    def text(self) -> bytes:
        """The text of the reply, without ``-`` and line end."""
        message: bytes = self.args[0]
        return message

    def as_reply(self) -> CommandError:
        """Return the error without its traceback and causes.

        A traceback and its error hold each other, and the command's words with them, until the garbage collector runs.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self


class Simple(bytes):
    """A simple string (``+OK``)."""


class Verbatim(bytes):
    """Text for people (INFO, CLIENT LIST): a verbatim string of format txt in RESP3."""


class Map(list[Any]):
    """A flat list of keys and values, in order."""

    @classmethod
    def of(cls, pairs: Mapping[bytes, Any]) -> Map:
        """The same from a dictionary."""
        return cls(part for pair in pairs.items() for part in pair)


class Set(list[Any]):
    """A set: order has no meaning, no element twice."""


class Push(list[Any]):
    """An out-of-band message: its first element is its kind."""


class Raw(bytes):
    """Exactly one value, already encoded."""


class Frames:
    """``count`` entries whose frames are the concatenation of ``parts`` (bytes or memoryviews of immutable buffers)."""

    __slots__ = ("count", "parts")

    def __init__(self, count: int, parts: Sequence[bytes | memoryview]) -> None:
        self.count = count
        self.parts = parts


class ByKey(list[Any]):
    """What was found under some keys: pairs of key and value, a map in RESP3 and an array of pairs in RESP2."""


class Several:
    """``count`` values, already encoded, of an :class:`Array`: the concatenation of ``parts``."""

    __slots__ = ("count", "parts")

    def __init__(self, count: int, parts: Sequence[bytes | memoryview]) -> None:
        self.count = count
        self.parts = parts


class Array(list[Any]):
    """An array in which a :class:`Several` stands for as many values as it says."""


class Pages:
    """A long reply of one ``kind`` (list, Map, Set or ByKey) with ``size`` elements, which are made page by page.

    With the kind ``bytes`` it is one value of ``size`` bytes, with the line end behind it, as :class:`Several`; with
    the kind Raw it is what its elements are, without a header.

    Between two pages other clients' commands run. So whatever ``pages`` makes its elements of must be fixed when the
    command returns. A page has a few thousand elements at the most, depending on what each costs. An element may be
    Pages, or a :class:`Several`.
    """

    __slots__ = ("kind", "pages", "size")

    def __init__(self, kind: type[list[Any] | bytes], size: int, pages: Iterator[Sequence[Reply]]) -> None:
        self.kind = kind
        self.size = size
        self.pages = pages


class Steps:
    """A command that is done step by step, other clients' commands in between; the generator returns the reply.

    Each step leaves the data as a command of its own would: somebody sees it, and the log gets it. The next one may
    find anything changed. ``argv`` are the command's words, ``spent_ns`` the nanoseconds that it has taken so far.

    With ``is_whole`` the steps are one command all the same (a script): others see nothing of it before the last one,
    most of them are refused until then, and it goes on whatever has come to be refused.
    """

    __slots__ = ("argv", "is_whole", "spent_ns", "work")

    def __init__(self, argv: list[bytes], work: Generator[None, None, Reply], *, is_whole: bool = False) -> None:
        self.argv = argv
        self.is_whole = is_whole
        self.work = work
        self.spent_ns = 0

    def next(self) -> Reply:
        """Do a step: the reply, or these steps themselves if there are more."""
        try:
            next(self.work)
        except StopIteration as end:
            return end.value
        return self

    def all(self) -> Reply:
        """Do all steps at once."""
        while (reply := self.next()) is self:
            pass
        return reply


#: Words on a page, and up to how many a reply has no pages; rows on a page.
_WORDS, _SHORT = 4000, 10_000
_ROWS, _FEW_ROWS = 500, 20


def paged(items: list[Reply]) -> Reply:
    """The reply that a list, Map or Set of simple elements is, in pages if it is long. Nobody else may use it."""
    return items if len(items) <= _SHORT else Pages(type(items), len(items), _parts(items))


def _parts(items: list[Reply]) -> Iterator[list[Reply]]:
    """Parts of a list, which loses them: letting all of it go at the end would take long."""
    items.reverse()
    while items:
        part = items[: -_WORDS - 1 : -1]
        del items[-_WORDS:]
        yield part


def rows_in_pages(size: int, items: Iterable[tuple[S, T]], row: Callable[[S, T], Reply]) -> Reply:
    """A list of the ``row`` of each of the first ``size`` items, in pages but for very few."""
    rows = starmap(row, islice(items, size))
    if size <= _FEW_ROWS:
        return list(rows)
    return Pages(list, size, iter(lambda: list(islice(rows, _ROWS)), []))


def holding(items: list[Reply]) -> Reply:
    """The reply that a list, Map or Set is: Pages, if one of its elements is."""
    return Pages(type(items), len(items), iter([items])) if Pages in map(type, items) else items


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
