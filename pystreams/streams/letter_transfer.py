"""Transfer of dead letters to another stream: each letter is added once and removed once, even after an interruption.

A letter is removed only after its entry is known to be in the target. If the server refuses the XADD, the letter stays.
A transaction alone does not ensure this, since it continues after a failed command. So there are two ways on Redis:

* Within one slot (any two streams, if there is no cluster) a script adds and removes a letter; it stops if XADD fails.
* Between slots of a cluster the letter is added together with a *note* in the target's slot, and removed afterwards:

      WATCH notes; HGETALL notes; are the letters still there?  MULTI; add and note each...; EXEC; XDEL; HDEL notes

  An existing note means that a program added the letter and was interrupted before it removed the letter. A note is
  removed after its letter, and letters are looked up after notes, so that only one of two programs adds a letter.

On the engine, a transaction adds and removes letters within one slot. It watches the source, and PS.EXEC ends it if
XADD fails.

If the user may not run scripts, or an entry is too large for a script (`_SCRIPT_WORDS`), the target is watched as well.
The reasons for which XADD may be refused are checked first, and the transaction is repeated if another program has
changed the target meanwhile. On a busy target, the transfer may fail with WRITE_CONTENDED.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from pystreams.streams.paged_calls import ask, ask_all, failure, pages
from streamclient.compare_and_set import change
from streamclient.connection import Command, Connection
from streamclient.errors import ResponseError
from streamclient.refusals import refused
from streamclient.reply_maps import pairs
from streamwire.slots import same_slot_tag, slot_of
from streamwire.stream_id import LAST, ZERO, StreamId

#: Maximum number of letters in one transaction or pipeline.
_AT_ONCE = 100
#: Maximum number of field names and values of an entry that a script transfers. Lua 5.1 limits a call to about 8,000
#: values.
_SCRIPT_WORDS = 4000

#: Moves a letter from the first key to the second, without the field names and values before the index ARGV[2]. Skips a
#: letter that no longer exists.
_MOVE = """
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
if not found then return 0 end
redis.call('XDEL', KEYS[1], '0-0') -- a user without the right is refused before anything is added
redis.call('XADD', KEYS[2], '*', unpack(found[2], ARGV[2]))
redis.call('XDEL', KEYS[1], ARGV[1])
return 1
"""

#: Adds an entry to the first key, and a note about its letter to the second key.
_ADD = """
redis.call('HDEL', KEYS[2], '') -- a user without the right is refused before anything is added
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local added = redis.pcall('XADD', KEYS[1], '*', unpack(ARGV, 3))
if type(added) == 'table' and added.err then redis.call('HDEL', KEYS[2], ARGV[1]) end
return added
"""


class Letter(Protocol):
    """Dead letter: its ID, and all its field names and values."""

    @property
    def id(self) -> bytes: ...
    @property
    def whole(self) -> list[bytes]: ...


L = TypeVar("L", bound=Letter)


def transfer(connection: Connection, source: bytes, target: bytes, letters: Sequence[L], skip: int) -> list[L]:
    """Move letters to the target, without the first `skip` field names and values of each letter.

    Returns the transferred letters, without those that another program has put back or removed. Raises NOT_A_STREAM,
    WRITE_CONTENDED, and refusals of the server. After an error, the remaining letters stay in the source.
    """
    one_slot = not connection.topology.is_cluster or slot_of(source) == slot_of(target)
    scripts = connection.capabilities.may_run_scripts()
    done: list[L] = []
    for page in pages(letters, _AT_ONCE):
        by_script = scripts and all(len(letter.whole) <= _SCRIPT_WORDS for letter in page)
        if not one_slot:
            done += _Between(connection, source, target, page, skip, by_script).transfer()
        elif by_script:
            done += _by_script(connection, source, target, page, skip)
        else:
            done += _watched(connection, source, target, page, skip)
    return done


def _by_script(connection: Connection, source: bytes, target: bytes, page: Sequence[L], skip: int) -> list[L]:
    """Transfer within one slot by a script per letter.

    The script can be sent again, since it skips letters that no longer exist.
    """
    commands: list[Command] = [("EVAL", _MOVE, 2, source, target, letter.id, skip + 1) for letter in page]
    replies = connection.pipeline(commands)
    _raise_first(connection, target, replies)
    return [letter for letter, reply in zip(page, replies, strict=True) if reply]


def _watched(connection: Connection, source: bytes, target: bytes, page: Sequence[L], skip: int) -> list[L]:
    """Transfer within one slot by one transaction. It watches both streams, but with PS.EXEC only the source."""
    stops = connection.capabilities.stops_at_errors()
    moved: list[L] = []

    def decide(replies: list[Any]) -> list[Command]:
        nonlocal moved
        moved = [letter for letter, reply in zip(page, replies, strict=True) if reply]
        if not moved:
            return []
        if not stops:
            _check_room(connection, target, len(moved))
        commands: list[Command] = []
        for letter in moved:
            commands.append(("XADD", target, "*", *letter.whole[skip:]))
            commands.append(("XDEL", source, letter.id))
        return commands

    reads: list[Command] = [("XRANGE", source, letter.id, letter.id) for letter in page]
    watched = [source] if stops else [source, target]
    _raise_first(connection, target, change(connection, watched, reads, decide, partial=True, stops=stops))
    return moved


class _Between(Generic[L]):
    """The transfer of some letters from one slot to another."""

    def __init__(
        self, connection: Connection, source: bytes, target: bytes, page: Sequence[L], skip: int, by_script: bool
    ) -> None:
        self._connection = connection
        self._source = source
        self._target = target
        self._page = {letter.id: letter for letter in page}
        self._skip = skip
        self._by_script = by_script
        self._notes = b"pystreams:{" + same_slot_tag(target) + b"}:letters:" + source
        self._adding: list[L] = []
        self._added: set[bytes] = set()  # letters that this transfer has added, according to their notes
        self._mark = secrets.token_hex(8).encode()
        self._noted: list[bytes] = []  # letters that are in the target and not removed yet
        self._old: list[bytes] = []  # letters with outdated notes: they no longer exist, or were not added

    def transfer(self) -> list[L]:
        watched = [self._notes] if self._by_script else [self._notes, self._target]
        results = change(self._connection, watched, [("HGETALL", self._notes)], self._decide, partial=True)
        replies = results[:: 1 if self._by_script else 2]
        for letter, reply in zip(self._adding, replies, strict=True):
            if isinstance(reply, ResponseError):
                self._old.append(letter.id)  # an outdated note: its letter was not added
            else:
                self._noted.append(letter.id)
                self._added.add(letter.id)
        if self._noted:
            ask(self._connection, "XDEL", self._source, *self._noted)
        if self._noted or self._old:
            ask(self._connection, "HDEL", self._notes, *self._noted, *self._old)
        _raise_first(self._connection, self._target, results)
        return [self._page[each] for each in self._noted if each in self._added]

    def _decide(self, replies: list[Any]) -> list[Command]:
        notes = {each: note.partition(b" ") for each, note in pairs(replies[0]).items()}
        requested = [*self._page, *(each for each in notes if each not in self._page)]
        found = ask_all(self._connection, [("XRANGE", self._source, each, each) for each in requested])
        there = {each for each, reply in zip(requested, found, strict=True) if reply}
        self._old = [each for each in notes if each not in there]
        self._noted = [
            each for each in self._page if each in there and each in notes and notes[each][0] == self._digest(each)
        ]
        # If a reply to EXEC was lost, this transfer's notes exist already.
        self._added = {each for each in self._noted if notes[each][2] == self._mark}
        self._adding = [letter for each, letter in self._page.items() if each in there and each not in self._noted]
        if not self._adding:
            return []
        if not self._by_script:
            _check_room(self._connection, self._target, len(self._adding))
        return [command for letter in self._adding for command in self._add(letter)]

    def _add(self, letter: L) -> list[Command]:
        words, note = letter.whole[self._skip :], self._digest(letter.id) + b" " + self._mark
        if self._by_script:
            return [("EVAL", _ADD, 2, self._target, self._notes, letter.id, note, *words)]
        return [("XADD", self._target, "*", *words), ("HSET", self._notes, letter.id, note)]

    def _digest(self, letter_id: bytes) -> bytes:
        """Return a digest of letter and target.

        The digest differs for another letter with the same ID in a recreated stream.
        """
        words = [self._target, *self._page[letter_id].whole[self._skip :]]
        made = hashlib.blake2b(digest_size=16)
        for word in words:
            made.update(b"%d:%b" % (len(word), word))
        return made.hexdigest().encode()


def _check_room(connection: Connection, target: bytes, count: int) -> None:
    """Raise the error that XADD would cause if the key is not a stream, or has too few IDs left."""
    info = connection.pipeline([("XINFO", "STREAM", target)])[0]
    if not isinstance(info, ResponseError):
        last = StreamId.parse(pairs(info)[b"last-generated-id"])
    elif "no such key" in str(info):
        last = ZERO
    else:
        raise failure(connection, ("XINFO", "STREAM", target), info)
    if last.ms == LAST.ms and LAST.seq - last.seq < count:
        raise refused(connection.address, "XADD", "the stream has no IDs left", target)


def _raise_first(connection: Connection, target: bytes, results: Sequence[Any]) -> None:
    for result in results:
        if isinstance(result, ResponseError):
            raise failure(connection, ("XADD", target), result)
