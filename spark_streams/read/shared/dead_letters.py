"""Dead letters: an entry that was delivered too often is moved with all its fields to a separate stream.

The moved entry, called a letter, has the fields `_original_stream`, `_original_id`, `_original_deliveries` and
`_reason`, followed by the original's fields. This is everything needed to examine the entry, repair it and add it
again. None of these names is one of the connector's own columns, so a schema can contain them.

Spark may scan a batch several times at once, and any scan may be killed. Nevertheless each letter is added once:

* In one slot (any two streams outside a cluster) a script checks that the entry is still pending for the consumer, adds
  the letter and acknowledges the entry. WATCH could not replace the script: XACK and XCLAIM do not count as changes of
  a stream.
* Between slots, or without scripts, the letter is added together with a *note* in the target's slot. Then the entry is
  acknowledged, and finally the note is removed. The script also respects notes.

      WATCH notes target; HGETALL notes; XPENDING: which are still pending?  MULTI; XADD and note each...; EXEC
      XACK; HDEL notes

  An existing note belongs to a letter whose scan was killed before it acknowledged the entry. Pending entries are
  requested after the notes, so only one of two scans adds the letter. This method does not detect another program that
  acknowledges or claims the entry between XPENDING and XACK. On the engine, PS.EXEC ends the transaction if an XADD is
  refused, so the target need not be watched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spark_streams.errors import fail
from spark_streams.read.shared.protocol import SharedTask
from streamclient.codec.reply import Page
from streamclient.compare_and_set import change
from streamclient.connection import Command, Connection
from streamclient.errors import ResponseError
from streamclient.refusals import Refusal, is_forbidden, refusal_of, refused
from streamwire.slots import same_slot_tag, slot_of
from streamwire.stream_id import LAST, StreamId

_CHUNK = 500  # maximum number of letters moved at a time
#: Maximum field names and values of a letter that a script adds. Lua 5.1 limits a call to about 8,000 values.
_SCRIPT_WORDS = 4000

#: Moves an entry if it is still pending for the consumer and was delivered more often than the limit.
#:
#: An existing note means that the letter was already added.
_MOVE = """
local stream, target, group, consumer, id = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
-- A user without the right is refused here, before anything is added.
redis.call('XACK', stream, group, '0-0')
local found = redis.call('XPENDING', stream, group, id, id, 1, consumer)[1]
if not found or found[4] <= tonumber(ARGV[4]) then return 0 end
local note = redis.call('HMGET', KEYS[3], id)[1]
if note ~= ARGV[5] then redis.call('XADD', target, '*', unpack(ARGV, 6)) end
redis.call('XACK', stream, group, id)
if note then redis.call('HDEL', KEYS[3], id) end
return 1
"""


@dataclass(frozen=True)
class _Letter:
    """A dead letter: the original's ID, and the letter's alternating field names and values."""

    id: bytes
    words: list[bytes | str]

    @property
    def note(self) -> bytes:
        """Digest that distinguishes letters with the same ID, in case the stream was recreated."""
        made = hashlib.blake2b(digest_size=16)
        for word in self.words[:4] + self.words[8:]:  # without the number of deliveries, which grows
            text = word.encode() if isinstance(word, str) else word
            made.update(b"%d:%b" % (len(text), text))
        return made.hexdigest().encode()


def move(connection: Connection, task: SharedTask, page: Page, rows: Sequence[int], deliveries: Sequence[int]) -> None:
    """Add these rows of a page to the dead-letter stream, and acknowledge them, unless an earlier scan has done that.

    `deliveries` has a number for each of `rows`. Raises NOT_A_STREAM before any change, and GROUP_LOST,
    WRITE_CONTENDED, NOT_PERMITTED and SERVER_REFUSED.
    """
    ids = page.id_texts()
    target = task.dead_letters or ""
    _check_target(connection, target)
    reason = f"delivered more than {task.max_deliveries} times"
    letters = [
        _Letter(ids[row], _words(task.stream, ids[row], reason, count, _pairs(page, row)))
        for row, count in zip(rows, deliveries, strict=True)
    ]
    in_script = (
        _one_slot(connection, task)
        and connection.capabilities.may_run_scripts()
        and all(len(letter.words) <= _SCRIPT_WORDS for letter in letters)
    )
    for start in range(0, len(letters), _CHUNK):
        chunk = letters[start : start + _CHUNK]
        in_script = in_script and _move_by_script(connection, task, chunk)
        if not in_script:
            _Noted(connection, task, chunk).move()


def _one_slot(connection: Connection, task: SharedTask) -> bool:
    target = (task.dead_letters or "").encode()
    return not connection.topology.is_cluster or slot_of(target) == slot_of(task.stream.encode())


def _notes_key(task: SharedTask) -> bytes:
    """Return the key of the notes. It is in the target's slot."""
    origin = f"{len(task.stream)}:{task.stream}:{len(task.group)}:{task.group}".encode()
    return b"pystreams:{" + same_slot_tag((task.dead_letters or "").encode()) + b"}:dead:" + origin


def _check_target(connection: Connection, target: str, letters: int = 1) -> None:
    """Raise the error that XADD would cause: the key is not a stream, or has too few IDs left for the letters."""
    (info,) = connection.pipeline([("XINFO", "STREAM", target)])
    if isinstance(info, ResponseError):
        if str(info).startswith("WRONGTYPE"):
            fail("NOT_A_STREAM", stream=target, address=connection.address)
        if "no such key" not in str(info):
            raise refused(connection.address, "XINFO", info, target)
        return
    last = StreamId.parse(info[info.index(b"last-generated-id") + 1])
    if last.ms == LAST.ms and LAST.seq - last.seq < letters:
        raise refused(connection.address, "XADD", "the stream has no IDs left", target)


def _move_by_script(connection: Connection, task: SharedTask, letters: Sequence[_Letter]) -> bool:
    """Move the letters. Returns False if scripts are not available or not permitted.

    Even then, some letters may have been moved.
    """
    target, most = task.dead_letters or "", task.max_deliveries or 0
    keys: Command = ("EVAL", _MOVE, 3, task.stream, target, _notes_key(task))
    commands: list[Command] = [
        (*keys, task.group, task.consumer, letter.id, most, letter.note, *letter.words) for letter in letters
    ]
    for reply in connection.pipeline(commands):
        if not isinstance(reply, ResponseError):
            continue
        if is_forbidden(reply) or (str(reply).startswith("ERR") and refusal_of(reply) is Refusal.SERVER):
            return False
        raise _failure(connection, task, "EVAL", reply)
    return True


class _Noted:
    """Moves letters by transactions and notes."""

    def __init__(self, connection: Connection, task: SharedTask, letters: Sequence[_Letter]) -> None:
        self._connection = connection
        self._task = task
        self._letters = {letter.id: letter for letter in letters}
        self._target = (task.dead_letters or "").encode()
        self._notes = _notes_key(task)
        self._stops = connection.capabilities.stops_at_errors()
        self._adding: list[_Letter] = []
        self._noted: list[bytes] = []  # entries whose letters are in the target, and which are still pending
        self._old: list[bytes] = []  # notes of entries that are no longer pending

    def move(self) -> None:
        """Add the missing letters, acknowledge their entries, and remove the notes."""
        watched, reads = [self._notes] if self._stops else [self._notes, self._target], [("HGETALL", self._notes)]
        done = change(self._connection, watched, reads, self._decide, partial=True, stops=self._stops)
        adding, self._adding = self._adding, []
        for letter, reply in zip(adding, done[::2], strict=False):
            (self._old if isinstance(reply, ResponseError) else self._noted).append(letter.id)
        task, connection = self._task, self._connection
        if self._noted:
            connection.command("XACK", task.stream, task.group, *self._noted)
        if self._noted or self._old:
            connection.command("HDEL", self._notes, *self._noted, *self._old)
        for reply in done:
            if isinstance(reply, ResponseError):
                raise _failure(connection, task, "XADD", reply)

    def _decide(self, replies: list[Any]) -> list[Command]:
        (found,) = replies
        notes = dict(zip(found[::2], found[1::2], strict=True))
        requested = [*self._letters, *(each for each in notes if each not in self._letters)]
        pending = self._pending(requested)
        self._old = [each for each in notes if each not in pending]
        eligible = [
            letter
            for letter in self._letters.values()
            if pending.get(letter.id, (b"", 0))[0] == self._task.consumer.encode()
            and pending[letter.id][1] > (self._task.max_deliveries or 0)
        ]
        self._noted = [letter.id for letter in eligible if notes.get(letter.id) == letter.note]
        self._adding = [letter for letter in eligible if notes.get(letter.id) != letter.note]
        if not self._adding:
            return []
        if not self._stops:
            _check_target(self._connection, self._target.decode(), len(self._adding))
        commands: list[Command] = []
        for letter in self._adding:
            commands.append(("XADD", self._target, "*", *letter.words))
            commands.append(("HSET", self._notes, letter.id, letter.note))
        return commands

    def _pending(self, ids: Sequence[bytes]) -> dict[bytes, tuple[bytes, int]]:
        """Return the consumer and the number of deliveries of each pending entry."""
        task = self._task
        commands: list[Command] = [("XPENDING", task.stream, task.group, each, each, 1) for each in ids]
        replies = self._connection.pipeline(commands)
        for reply in replies:
            if isinstance(reply, ResponseError):
                raise _failure(self._connection, task, "XPENDING", reply)
        return {row[0]: (row[1], int(row[3])) for rows in replies for row in rows}


def _failure(connection: Connection, task: SharedTask, command: str, reply: ResponseError) -> Exception:
    """Return the error for a refusal (see `refused`). Raises GROUP_LOST if the group does not exist."""
    if "NOGROUP" in str(reply):
        fail("GROUP_LOST", stream=task.stream, address=connection.address, group=task.group)
    return refused(connection.address, command, reply, task.dead_letters)


def _words(stream: str, entry_id: bytes, reason: str, deliveries: int, pairs: Sequence[bytes]) -> list[bytes | str]:
    """Return a dead letter's alternating field names and values."""
    origin: dict[str, bytes | str] = {
        "_original_stream": stream,
        "_original_id": entry_id,
        "_original_deliveries": str(deliveries),
        "_reason": reason,
    }
    return [*(word for pair in origin.items() for word in pair), *pairs]


def _pairs(page: Page, row: int) -> list[bytes]:
    """Return an entry's alternating field names and values."""
    offsets, names, values = page.fields()
    first, last = offsets[row].as_py(), offsets[row + 1].as_py()
    keys, texts = names.slice(first, last - first).to_pylist(), values.slice(first, last - first).to_pylist()
    return [word for pair in zip(keys, texts, strict=True) for word in pair]
