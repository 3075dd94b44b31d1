"""Dead letters: entries that were delivered too often, moved to a stream of their own, and from there back to streams.

A letter has the fields `FIELDS`, followed by the fields of the original entry. This is everything needed to examine the
entry, repair it and add it again. None of these names is a column of the connector, so a schema can contain them.

`move` adds entries to a target and then finishes them at their origin: it acknowledges pending entries (`Pending`), or
deletes letters (`Letters`). Any number of programs may move the same entries, and each may be killed at any step.
Nevertheless, each entry is added once, and is finished only after it is in the target. There are three ways:

* In one slot (any two streams outside a cluster), a script checks that the entry is still at its origin, adds it and
  finishes it. WATCH could not replace the check of pending entries: XACK and XCLAIM do not change a watched stream.
* Without scripts, a transaction adds and deletes letters of one slot. It watches the origin.
* Otherwise an entry is added together with a *note* in the target's slot. Then it is finished, and the note removed:

      WATCH notes; HGETALL notes; are the entries still there?  MULTI; add and note each...; EXEC; finish; HDEL notes

  An existing note belongs to an entry that a program added before it was killed. Entries are looked up after notes, so
  only one of two programs adds an entry. This way does not detect another program that acknowledges or claims an entry
  between the look-up and the acknowledgement.

A transaction goes on after a refused XADD. So PS.EXEC ends it on the engine, and between slots a script adds an entry
only with its note. Without both, the transaction watches the target, whose type and last ID are checked first. On a
busy target, it may fail with WRITE_CONTENDED.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamclient.connection import Command, Connection, change
from streamclient.errors import PystreamsError, ResponseError, error
from streamclient.refusals import Refusal, is_forbidden, refusal_of, refused
from streamclient.reply_maps import pairs
from streamwire.slots import same_slot_tag, slot_of
from streamwire.stream_id import LAST, StreamId

#: The first fields of a letter.
FIELDS = (b"_original_stream", b"_original_id", b"_original_deliveries", b"_reason")
#: Maximum number of entries in one transaction or pipeline.
_AT_ONCE = 100
#: Maximum number of field names and values that a script adds. Lua 5.1 limits a call to about 8,000 values.
_SCRIPT_WORDS = 4000

#: Moves an entry that is still at its origin. Adds nothing if a note shows that the entry was added.
_MOVE = """
local id, digest = ARGV[1], ARGV[2]
local function finish(each) return redis.call(%s, each) end
finish('0-0') -- a user without the right is refused before anything is added
local found = %s
if not found then return 0 end
local note = %s
if not note or string.sub(note, 1, #digest) ~= digest then redis.call('XADD', KEYS[2], '*', unpack(ARGV, 6)) end
finish(id)
if note then redis.call('HDEL', KEYS[3], id) end
return 1
"""

#: Adds an entry to the first key, and its note to the second key.
_ADD = """
redis.call('HDEL', KEYS[2], '') -- a user without the right is refused before anything is added
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local added = redis.pcall('XADD', KEYS[1], '*', unpack(ARGV, 3))
if type(added) == 'table' and added.err then redis.call('HDEL', KEYS[2], ARGV[1]) end
return added
"""


@dataclass(frozen=True)
class Entry:
    """An entry to move: its ID at the origin, and its alternating field names and values.

    `head`: field names and values that precede them in the target.
    """

    id: bytes
    words: list[bytes]
    head: Sequence[bytes] = ()

    @property
    def added(self) -> list[bytes]:
        """Field names and values in the target."""
        return [*self.head, *self.words]


@dataclass(frozen=True)
class Pending:
    """Origin: entries that are pending for a consumer of a group and were delivered more than `most` times."""

    stream: bytes
    group: bytes
    consumer: bytes
    most: int

    script = _MOVE % (
        "'XACK', KEYS[1], ARGV[3]",
        "redis.call('XPENDING', KEYS[1], ARGV[3], id, id, 1, ARGV[4])[1]\n"
        "found = found and found[4] > tonumber(ARGV[5])",
        "redis.call('HMGET', KEYS[3], id)[1]",
    )
    #: Whether the command that finishes an entry changes the watched origin. If so, moves in one slot need no notes.
    is_watched = False

    @property
    def name(self) -> bytes:
        """Name of this origin in the key of the notes."""
        lengths = [b"%d:%b" % (len(word.decode("utf-8", "replace")), word) for word in (self.stream, self.group)]
        return b"dead:" + b":".join(lengths)

    @property
    def arguments(self) -> Command:
        """Arguments of the script."""
        return self.group, self.consumer, self.most

    def look(self, entry_id: bytes) -> Command:
        """Return the command whose reply is empty if the entry is not at the origin."""
        return ("XPENDING", self.stream, self.group, entry_id, entry_id, 1)

    def is_ours(self, reply: list[Any]) -> bool:
        """Return whether the entry in a reply to `look` may be moved."""
        return reply[0][1] == self.consumer and int(reply[0][3]) > self.most

    def finish(self, ids: Sequence[bytes]) -> Command:
        """Return the command that finishes entries."""
        return ("XACK", self.stream, self.group, *ids)


@dataclass(frozen=True)
class Letters:
    """Origin: letters in a stream. The methods are those of `Pending`."""

    stream: bytes

    script = _MOVE % ("'XDEL', KEYS[1]", "redis.call('XRANGE', KEYS[1], id, id)[1]", "nil")
    is_watched = True
    arguments: Command = (b"", b"", b"")

    @property
    def name(self) -> bytes:
        return b"letters:" + self.stream

    def look(self, entry_id: bytes) -> Command:
        return ("XRANGE", self.stream, entry_id, entry_id)

    def is_ours(self, reply: list[Any]) -> bool:
        return bool(reply)

    def finish(self, ids: Sequence[bytes]) -> Command:
        return ("XDEL", self.stream, *ids)


def move(connection: Connection, origin: Pending | Letters, target: bytes, entries: Sequence[Entry]) -> set[bytes]:
    """Move entries to the target. Return the IDs of those that this call has added.

    Raises NOT_A_STREAM before any change, WRITE_CONTENDED, NOT_PERMITTED and SERVER_REFUSED. After an error, the
    remaining entries stay at their origin.
    """
    _check_room(connection, target, 1)
    one_slot = not connection.topology.is_cluster or slot_of(origin.stream) == slot_of(target)
    scripts = connection.capabilities.may_run_scripts()
    done: set[bytes] = set()
    for start in range(0, len(entries), _AT_ONCE):
        step = _Move(connection, origin, target, entries[start : start + _AT_ONCE])
        small = scripts and all(len(entry.added) <= _SCRIPT_WORDS for entry in step.entries.values())
        if not (one_slot and small and step.by_script()):
            step.by_transaction(scripted=small and not one_slot, atomic=one_slot and origin.is_watched)
        done |= step.added
    return done


class _Move:
    """The move of some entries. `added`: IDs of the entries that it has added."""

    def __init__(
        self, connection: Connection, origin: Pending | Letters, target: bytes, entries: Sequence[Entry]
    ) -> None:
        self.entries = {entry.id: entry for entry in entries}
        self.added: set[bytes] = set()
        self._connection, self._origin, self._target = connection, origin, target
        self._notes = b"pystreams:{" + same_slot_tag(target) + b"}:" + origin.name
        self._mark = secrets.token_hex(8).encode()
        self._adding: list[Entry] = []
        self._noted: list[bytes] = []  # entries that are in the target and not finished yet
        self._old: list[bytes] = []  # entries with outdated notes: they are gone, or were not added

    def by_script(self) -> bool:
        """Move the entries. Returns False if scripts are not available or not permitted.

        Even then, some entries may have been moved. The script can be sent again, since it skips these.
        """
        keys = [self._origin.stream, self._target, *([] if self._origin.is_watched else [self._notes])]
        head: Command = ("EVAL", self._origin.script, len(keys), *keys)
        commands: list[Command] = [
            (*head, entry.id, self._digest(entry), *self._origin.arguments, *entry.added)
            for entry in self.entries.values()
        ]
        replies = self._connection.pipeline(commands)
        self.added |= {each for each, reply in zip(self.entries, replies, strict=True) if reply == 1}
        for reply in replies:
            if isinstance(reply, ResponseError):
                if is_forbidden(reply) or (str(reply).startswith("ERR") and refusal_of(reply) is Refusal.SERVER):
                    return False
                raise self._failure(reply)
        return True

    def by_transaction(self, *, scripted: bool, atomic: bool) -> None:
        """Move the entries. `scripted`: add each by a script; `atomic`: finish each in the transaction."""
        stops = not scripted and self._connection.capabilities.stops_at_errors()
        watched = [self._origin.stream if atomic else self._notes]
        reads: list[Command] = [] if atomic else [("HGETALL", self._notes)]
        if not (scripted or stops):
            watched.append(self._target)

        def decide(replies: list[Any]) -> list[Command]:
            self._look(pairs(replies[0]) if replies else {})
            if self._adding and self._target in watched:
                _check_room(self._connection, self._target, len(self._adding))
            return [command for entry in self._adding for command in self._add(entry, scripted=scripted, atomic=atomic)]

        results = change(self._connection, watched, reads, decide, partial=True, stops=stops)
        for entry, reply in zip(self._adding, results[:: 1 if scripted else 2], strict=False):
            if not isinstance(reply, ResponseError):
                self.added.add(entry.id)
            if not atomic:
                (self._old if isinstance(reply, ResponseError) else self._noted).append(entry.id)
        ends = [self._origin.finish(self._noted)] if self._noted else []
        if self._noted or self._old:
            ends.append(("HDEL", self._notes, *self._noted, *self._old))
        for command in ends:
            self._connection.command(*command)
        for reply in results:
            if isinstance(reply, ResponseError):
                raise self._failure(reply)

    def _look(self, notes: dict[bytes, bytes]) -> None:
        """Find the entries to add, and those that notes show to be in the target."""
        asked = [*self.entries, *(each for each in notes if each not in self.entries)]
        replies = self._connection.commands([self._origin.look(each) for each in asked])
        found = {each: reply for each, reply in zip(asked, replies, strict=True) if reply}
        self._old = [each for each in notes if each not in found]
        ours = [each for each in self.entries if each in found and self._origin.is_ours(found[each])]
        known = {each: notes[each].partition(b" ") for each in ours if each in notes}
        self._noted = [each for each, note in known.items() if note[0] == self._digest(self.entries[each])]
        # If a reply to EXEC was lost, notes of this move exist already.
        self.added |= {each for each in self._noted if known[each][2] == self._mark}
        self._adding = [self.entries[each] for each in ours if each not in self._noted]

    def _add(self, entry: Entry, *, scripted: bool, atomic: bool) -> list[Command]:
        note = self._digest(entry) + b" " + self._mark
        if scripted:
            return [("EVAL", _ADD, 2, self._target, self._notes, entry.id, note, *entry.added)]
        end = self._origin.finish([entry.id]) if atomic else ("HSET", self._notes, entry.id, note)
        return [("XADD", self._target, "*", *entry.added), end]

    def _digest(self, entry: Entry) -> bytes:
        """Return a digest that differs for another entry with the same ID, in case the origin was recreated."""
        made = hashlib.blake2b(digest_size=16)
        for word in (self._target, *entry.words):
            made.update(b"%d:%b" % (len(word), word))
        return made.hexdigest().encode()

    def _failure(self, reply: ResponseError) -> PystreamsError:
        if "WRONGTYPE" in str(reply):
            return error("NOT_A_STREAM", stream=_shown(self._target), address=self._connection.address)
        return refused(self._connection.address, "XADD", reply, self._target)


def _check_room(connection: Connection, target: bytes, count: int) -> None:
    """Raise the error that XADD would cause: the key is not a stream, or has too few IDs left for the entries."""
    (info,) = connection.pipeline([("XINFO", "STREAM", target)])
    if isinstance(info, ResponseError):
        if str(info).startswith("WRONGTYPE"):
            raise error("NOT_A_STREAM", stream=_shown(target), address=connection.address)
        if "no such key" not in str(info):
            raise refused(connection.address, "XINFO", info, target)
        return
    last = StreamId.parse(pairs(info)[b"last-generated-id"])
    if last.ms == LAST.ms and LAST.seq - last.seq < count:
        raise refused(connection.address, "XADD", "the stream has no IDs left", target)


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
