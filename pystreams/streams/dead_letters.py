"""Dead letters: the entries that a query with `consume=shared` gave up, in the stream of the option `deadLetterStream`.

A letter begins with the fields `_original_stream`, `_original_id`, `_original_deliveries` and `_reason`; the original's
fields follow. What is put back or moved is added once and removed once (`letter_transfer`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pystreams.streams import entries, ids
from pystreams.streams.letter_transfer import transfer
from pystreams.streams.paged_calls import ask, ask_all, pages
from pystreams.values import numbers
from pystreams.values.fields import Entry
from streamclient.connection import Command, Connection
from streamwire.stream_id import ZERO, StreamId

_ORIGIN = (b"_original_stream", b"_original_id", b"_original_deliveries", b"_reason")
_CHUNK = 500


@dataclass(frozen=True)
class Letter:
    """A dead letter. `words`: the original's field names and values in turn."""

    id: bytes
    stream: bytes
    original: bytes
    deliveries: int | None
    reason: bytes
    words: list[bytes]

    @property
    def whole(self) -> list[bytes]:
        """All its field names and values, as they are in the dead-letter stream."""
        values = (self.stream, self.original, b"%d" % (self.deliveries or 0), self.reason)
        return [*(word for pair in zip(_ORIGIN, values, strict=True) for word in pair), *self.words]


@dataclass(frozen=True)
class Which:
    """Which letters are meant: of these IDs or of all, from this stream, for this reason (a part of it), as old."""

    ids: tuple[bytes, ...] = ()
    origin: bytes | None = None
    reason: bytes | None = None
    before: StreamId | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing narrows it down."""
        return self == Which()

    def has(self, letter: Letter) -> bool:
        return (self.origin is None or letter.stream == self.origin) and (
            self.reason is None or self.reason.lower() in letter.reason.lower()
        )


def parsed(entry: Entry) -> Letter | None:
    """Return the letter that an entry is; None if it is none."""
    entry_id, words = entry
    if tuple(words[0 : 2 * len(_ORIGIN) : 2]) != _ORIGIN:
        return None
    stream, original, deliveries, reason = words[1 : 2 * len(_ORIGIN) : 2]
    count = int(deliveries) if re.fullmatch(rb"[0-9]{1,18}", deliveries) else None
    return Letter(entry_id, stream, original, count, reason, words[2 * len(_ORIGIN) :])


def holders(connection: Connection, names: Iterable[bytes]) -> Iterator[bytes]:
    """Those of these streams whose last entry is a dead letter."""
    for page in pages(names, bytes_of=lambda name: ids.size_of(connection, name), most_bytes=ids.REPLY_BYTES):
        commands: list[Command] = [("XREVRANGE", name, "+", "-", "COUNT", 1) for name in page]
        for name, reply in zip(page, connection.pipeline(commands), strict=True):
            if isinstance(reply, list) and reply and parsed(reply[0]) is not None:
                yield name


def find(connection: Connection, stream: bytes, which: Which, upto: StreamId) -> Iterator[list[Letter]]:
    """Yield the letters that are meant, up to an ID, in pages; none of them is empty. What is no letter is
    passed over.
    """
    if which.ids:
        found = (
            [entry for reply in ask_all(connection, [("XRANGE", stream, one, one) for one in some]) for entry in reply]
            for some in pages(dict.fromkeys(which.ids), _CHUNK)
        )
    else:
        end = upto if which.before is None else min(upto, which.before.before())
        found = (page for whole in entries.pages(connection, stream, ZERO, end) for page in pages(whole, _CHUNK))
    for page in found:
        letters = [letter for letter in map(parsed, page) if letter is not None and which.has(letter)]
        if letters:
            yield letters


def put_back(
    connection: Connection, stream: bytes, letters: Sequence[Letter], to: bytes | None, *, keep: bool
) -> list[Letter]:
    """Add the originals again, where they came from or elsewhere, and remove the letters unless they are kept.

    The letters that were added: a letter without a field of an original stays, since no entry can be made of it, and
    one that is gone by now was put back or removed by somebody else.
    """
    by_target: dict[bytes, list[Letter]] = {}
    for letter in letters:
        if letter.words:
            by_target.setdefault(letter.stream if to is None else to, []).append(letter)
    done: list[Letter] = []
    for target, some in by_target.items():
        if keep:
            ask_all(connection, [("XADD", target, "*", *letter.words) for letter in some])
            done += some
        else:
            done += transfer(connection, stream, target, some, skip=2 * len(_ORIGIN))
    return done


def without_fields(letters: Iterable[Letter]) -> int:
    """Return how many of these `put_back` leaves alone."""
    return sum(not letter.words for letter in letters)


def left_alone(count: int) -> str:
    """What `put_back` did not do, as a sentence."""
    return f"Left there, without a field of an original: {numbers.things(count, 'dead letter')}."


def move(connection: Connection, stream: bytes, letters: Sequence[Letter], to: bytes) -> int:
    """Move letters as they are to another dead-letter stream. How many were still there."""
    return len(transfer(connection, stream, to, letters, skip=0))


def remove(connection: Connection, stream: bytes, letters: Sequence[Letter]) -> int:
    """Remove letters. How many were still there."""
    return int(ask(connection, "XDEL", stream, *(letter.id for letter in letters)))
