"""Dead letters: entries that a query with `consume=shared` could not process, in the stream of the option
`deadLetterStream`.

`streamclient.streams.dead_letters` defines the fields of a letter, and moves letters so that each is added once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pystreams.streams import entries, inventory
from pystreams.streams.paged_calls import ask, ask_all, failure, pages
from pystreams.values import numbers
from pystreams.values.fields import Entry
from streamclient.connection import Command, Connection
from streamclient.streams.dead_letters import FIELDS, Letters, move
from streamclient.streams.dead_letters import Entry as Original
from streamwire.stream_id import ZERO, StreamId

#: Number of field names and values that a letter has before those of the original entry.
HEAD = 2 * len(FIELDS)
_CHUNK = 500  # maximum number of letters in a page


@dataclass(frozen=True)
class Letter:
    """A dead letter.

    `deliveries`: None if the letter has no valid number. `words`: alternating field names and values of the original
    entry.
    """

    id: bytes
    stream: bytes
    original: bytes
    deliveries: int | None
    reason: bytes
    words: list[bytes]


@dataclass(frozen=True)
class Which:
    """Selection of letters: by ID, by original stream, by a part of the reason, and by age.

    An empty criterion selects all letters.
    """

    ids: tuple[bytes, ...] = ()
    origin: bytes | None = None
    reason: bytes | None = None
    before: StreamId | None = None

    @property
    def is_all(self) -> bool:
        """Whether this selects all letters."""
        return self == Which()

    def has(self, letter: Letter) -> bool:
        return (
            (self.origin is None or letter.stream == self.origin)
            and (self.reason is None or self.reason.lower() in letter.reason.lower())
            and (self.before is None or StreamId.parse(letter.id) < self.before)
        )


def parsed(entry: Entry) -> Letter | None:
    """Return an entry as a letter; None if it is not a dead letter."""
    entry_id, words = entry
    if tuple(words[0:HEAD:2]) != FIELDS:
        return None
    stream, original, deliveries, reason = words[1:HEAD:2]
    count = int(deliveries) if re.fullmatch(rb"[0-9]{1,18}", deliveries) else None
    return Letter(entry_id, stream, original, count, reason, words[HEAD:])


def holders(connection: Connection, names: Iterable[bytes], *, forbidden: set[bytes] | None = None) -> Iterator[bytes]:
    """Yield the streams whose last entry is a dead letter.

    `forbidden`: receives the names of streams that the user may not read. If it is None, all refusals are ignored.
    """
    for page in pages(
        names, bytes_of=lambda name: inventory.size_of(connection, name), most_bytes=inventory.REPLY_BYTES
    ):
        commands: list[Command] = [("XREVRANGE", name, "+", "-", "COUNT", 1) for name in page]
        for name, reply in zip(page, connection.pipeline(commands), strict=True):
            if isinstance(reply, list) and reply and parsed(reply[0]) is not None:
                yield name
            elif forbidden is not None and inventory.is_forbidden_key(reply):
                forbidden.add(name)
            elif forbidden is not None and str(reply).startswith("NOPERM"):
                raise failure(connection, ("XREVRANGE", name), reply)


def find(connection: Connection, stream: bytes, which: Which, upto: StreamId) -> Iterator[list[Letter]]:
    """Yield the selected letters in non-empty pages. Entries that are not letters are skipped.

    A selection without IDs includes only letters up to the ID `upto`.
    """
    if which.ids:
        found = (
            [
                entry
                for reply in ask_all(connection, [("XRANGE", stream, entry_id, entry_id) for entry_id in some])
                for entry in reply
            ]
            for some in pages(dict.fromkeys(which.ids), _CHUNK)
        )
    else:
        end = upto if which.before is None else min(upto, which.before.before())
        found = (page for whole in entries.pages(connection, stream, ZERO, end) for page in pages(whole, _CHUNK))
    for page in found:
        letters = [letter for letter in map(parsed, page) if letter is not None and which.has(letter)]
        if letters:
            yield letters


def put_back(connection: Connection, stream: bytes, letters: Sequence[Letter], to: bytes | None) -> int:
    """Add the original entries again, to their streams or to `to`, and remove the letters.

    Returns the number of added entries. A letter without fields of an original entry is skipped, since an entry needs a
    field. Letters that another program has put back or removed meanwhile are also skipped.
    """
    by_target: dict[bytes, list[Original]] = {}
    for letter in letters:
        if letter.words:
            target = letter.stream if to is None else to
            by_target.setdefault(target, []).append(Original(letter.id, letter.words))
    return sum(len(move(connection, Letters(stream), target, some)) for target, some in by_target.items())


def without_fields(letters: Iterable[Letter]) -> int:
    """Return the number of letters that `put_back` skips because they have no fields."""
    return sum(not letter.words for letter in letters)


def left_alone(count: int) -> str:
    """Return a sentence about letters that `put_back` skipped because they have no fields."""
    return f"Left in place because they have no fields of an original entry: {numbers.things(count, 'dead letter')}."


def remove(connection: Connection, stream: bytes, letters: Sequence[Letter]) -> int:
    """Remove letters. Returns the number of letters that still existed."""
    return int(ask(connection, "XDEL", stream, *(letter.id for letter in letters)))
