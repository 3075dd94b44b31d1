"""Replay of the commands of a log on an empty core, or of a master's commands on a replica's core.

Data is processed in large pieces. Runs of similar XADDs are added in one operation (`engine.wire.bulk`), other runs of
XADDs like a client's pipeline (`engine.core.dispatch.Core.execute_run`). The other commands run one by one
(`commands_in`). A piece is data verified by a block's checksum, or data that was written by Redis, or is too long for a
block.

Redis writes some commands in a form that it accepts only from itself; `as_client_command` converts them to the form
that clients may send. Every command must succeed: after a failure, later commands would run on different data than on
the master or before the crash. So an error means that the file is damaged, and loading fails with the file and offset.

Values of types that the engine does not store are left out of a log (`LeftOutKeys`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import hiredis

from engine.core.clients.session import Session
from engine.core.dispatch import Core, FatalError
from engine.core.formats.damage import (
    FIELD_EXPIRY,
    DamagedError,
    ForeignError,
    UnsupportedTypes,
    UnsupportedTypesError,
    UnsupportedValueError,
    shown,
    shown_library,
)
from engine.core.keyspace.database import Database, Value
from engine.core.protocol import ids
from engine.core.protocol.replies import CommandError
from engine.core.protocol.xadd import ADD_OPTIONS, TRIM_OPTIONS, divide
from engine.core.streams.idempotency import content_id
from engine.core.streams.stream import Stream
from engine.core.table.registry import called_by
from engine.core.table.unsupported import family_of
from engine.shell.durability.log import Piece, TornError, pieces, written_size
from engine.shell.observation.log_lines import LOG
from engine.text import messages
from engine.wire.bulk import Scanner

#: Commands that treat a value of any type alike at their first key.
_OF_ANY_TYPE = frozenset(b"copy del expire expireat move persist pexpire pexpireat rename renamenx unlink".split())
#: Commands that change a string or hash in place, so that it keeps what the engine lacks, such as fields that expire.
_IN_PLACE = frozenset(b"append decr decrby incr incrby hset hsetnx hmset hdel hincrby".split())
#: Families whose values are strings or hashes, so that the commands of `_IN_PLACE` may change them.
_LIKE_OURS = frozenset(
    (
        FIELD_EXPIRY,
        "SETEX and PSETEX (unlike SET with EX or PX)",
        "other hash commands",
        "other string commands",
        "bit commands",
        "HyperLogLogs",
    )
)


class LeftOutKeys(UnsupportedTypes):
    """The keys of one log that are left out because of their type.

    While the log is loaded, a mark is the value of such a key, so that the log's commands rename, copy, swap or delete
    it like any other value. Lists, sets and sorted sets disappear with their last element. So a command that succeeds
    only on another type replaces the mark. At the end, `settle` removes the marks and counts them.
    """

    def __init__(self, databases: list[Database]) -> None:
        super().__init__()
        self._databases = databases
        #: The mark of each type: a string that is recognised by its identity.
        self._marks: dict[str, bytes] = {}

    def add_key(self, kind: str, key: bytes, db: int, offset: int) -> None:  # noqa: ARG002 - for other sources
        """Leave out a key, whose value has the type ``kind``."""
        self._databases[db].set(key, self._marks.setdefault(kind, b"left out: %b" % kind.encode()))

    def _kind(self, value: Value | None) -> str | None:
        """Return the type of a value that is left out; None for other values."""
        return next((kind for kind, mark in self._marks.items() if mark is value), None)

    def settle(self) -> None:
        """Remove the keys that are left out, and count them. Call this once, after the last command."""
        for db in self._databases if self._marks else ():
            for key, value, _ in db.items():
                kind = self._kind(value)
                if kind is not None:
                    super().add_key(kind, key, db.index, 0)
                    db.delete(key)

    def leaves_out(self, db: Database, argv: list[bytes], offset: int) -> bool:
        """Return whether a command must not run: the engine lacks it, or it changes a value that is left out."""
        name, family = argv[0].lower(), family_of(argv[0])
        if family is not None:
            keys = _changed_keys(name, argv)
            for key in keys:
                self.add_key(family.decode(), key, db.index, offset)
            if not keys:
                is_library = name == b"function" and len(argv) > 1
                self.add(family.decode(), shown_library(argv[-1]) if is_library else f"'{shown(name)}'", offset)
            return True
        command = called_by(argv) if self._marks else None
        if command is None or not command.arity_fits(len(argv)):
            return False
        places = [(db, key) for key in command.keys.of(argv)]
        if name == b"move":
            places.append((self._databases[int(argv[2])], argv[1]))
        elif name == b"copy" and b"DB" in (options := [word.upper() for word in argv[3:]]):
            places[1] = self._databases[int(options[options.index(b"DB") + 1])], argv[2]
        for number, (where, key) in enumerate(places):
            kind = self._kind(where.get(key))
            if kind is None or (name in _OF_ANY_TYPE and not number):
                continue
            if name in _IN_PLACE and kind in _LIKE_OURS:
                return True
            where.delete(key)
        return False


def _changed_keys(name: bytes, argv: list[bytes]) -> list[bytes]:
    """Return the keys that an unsupported command may change; the scripts of old servers name theirs."""
    number = int(argv[1]) if name == b"msetex" else int(argv[2]) if name in (b"eval", b"evalsha") else 0
    words = [word.upper() for word in argv]
    if name in (b"sort", b"georadius", b"georadiusbymember"):
        return [argv[at + 1] for at, word in enumerate(words[:-1]) if word in (b"STORE", b"STOREDIST")]
    return {
        b"function": [],
        b"script": [],
        b"eval": argv[3 : 3 + number],
        b"evalsha": argv[3 : 3 + number],
        b"bitop": argv[2:3],
        b"msetnx": argv[1::2],
        b"msetex": argv[2 : 2 + 2 * number : 2],
        b"rpoplpush": argv[1:3],
        b"brpoplpush": argv[1:3],
        b"lmove": argv[1:3],
        b"blmove": argv[1:3],
        b"smove": argv[1:3],
    }.get(name, argv[1:2])


class Commands:
    """Runs commands for ``session``, in order, at the time ``now_us``. The core must be in replay mode.

    Errors report the offset of a command in its file or in a master's stream. ``left_out``: keys that are left out
    because of their type; None if commands that concern such types fail.
    """

    def __init__(self, core: Core, session: Session, now_us: int, left_out: LeftOutKeys | None = None) -> None:
        self._core = core
        self._session = session
        self._left_out = left_out
        self.now_us = now_us
        #: Commands since MULTI with their offsets; None outside a transaction.
        self._queue: list[tuple[int, list[bytes]]] | None = None
        #: The offset of MULTI.
        self.began = 0
        #: Number of commands that have run.
        self.count = 0

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._queue is not None

    def apply(self, argv: list[bytes], offset: int) -> None:
        """Run a command, or queue it until the end of its transaction. Raises DamagedError if a command fails, a
        ForeignError if the engine does not have the command.

        The effects of a transaction are sealed as one transaction.
        """
        name = argv[0].upper()
        if name == b"SPUBLISH":
            self.count += 1  # A Redis master's message on a shard channel: the engine has no subscribers.
        elif name == b"MULTI":
            if self._queue is not None:
                raise DamagedError(offset, "MULTI within a transaction")
            self._queue, self.began = [], offset
        elif name == b"EXEC":
            if self._queue is None:
                raise DamagedError(offset, "EXEC without MULTI")
            queue, self._queue = self._queue, None
            first = len(self._core.changes.effects)
            for at, queued in queue:
                self._run(queued, at)
            self.count += len(queue)
            self._core.changes.seal_as_one(first)
        elif self._queue is not None:
            family = family_of(argv[0]) if self._left_out is None else None
            if family is not None:
                # Fail before EXEC, so that no part of the transaction is applied.
                raise _failure(argv, CommandError(messages.left_out(argv[0], family)), offset)
            self._queue.append((offset, argv))
        else:
            self.count += 1
            self._run(argv, offset)

    def _run(self, argv: list[bytes], offset: int) -> None:
        name = argv[0].upper()
        if name == b"SELECT" and len(argv) == 2 and argv[1].isdigit() and int(argv[1]) < len(self._core.databases):
            self._session.db = int(argv[1])
            return
        left_out, db = self._left_out, self._core.databases[self._session.db]
        if left_out is not None and left_out.leaves_out(db, argv, offset):
            return
        if name == b"XIDMPRECORD" and len(argv) == 5:
            self._record(argv, offset)
            return
        record: list[bytes] = []
        if name in (b"XADD", b"XTRIM") and len(argv) > 4 and not argv[2][:1].isdigit():
            argv, record = as_client_command(argv)
            if not argv:
                return
        if self._core.divided.running:
            self._core.divided.make_way(self._session, argv)
        first = len(self._core.changes.effects)
        reply = self._core.execute(self._session, argv, self.now_us)
        if isinstance(reply, UnsupportedValueError) and left_out is not None:
            left_out.add_key(reply.kind, argv[1], db.index, offset)
            return
        if isinstance(reply, CommandError):
            raise _failure(argv, reply, offset)
        if record:
            self._record([b"XIDMPRECORD", argv[1], *record], offset)
            self._core.changes.seal_as_one(first)

    def _record(self, argv: list[bytes], offset: int) -> None:
        """Record an idempotent ID, even if its entry was deleted. It replaces an equal ID that has not expired yet."""
        _, key, producer, iid, word = argv
        db = self._core.databases[self._session.db]
        stream = db.get(key)
        if not isinstance(stream, Stream) or not producer or not iid:
            raise DamagedError(offset, "XIDMPRECORD for a missing stream: " + messages.NO_SUCH_KEY.decode())
        producers = self._core.streams.producers_of(stream)
        producers.drop(producer, iid)
        try:
            producers.remember(producer, iid, ids.parse(word))
        except CommandError as error:
            raise DamagedError(offset, error.text.decode()) from None
        self._core.changes.record(db.index, argv)


def _failure(argv: list[bytes], error: CommandError, offset: int) -> DamagedError:
    shown = b" ".join(argv[:3])[:100].decode("utf-8", "backslashreplace")
    kind = DamagedError if family_of(argv[0]) is None else ForeignError
    return kind(offset, f"{shown} ... failed: {error.text.decode('utf-8', 'backslashreplace')}")


def as_client_command(argv: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return two lists: the XADD or XTRIM as a client may send it, without LIMIT, and [producer, iid, ID] of an
    idempotent XADD with its final ID. For other commands, the second list is empty. For an idempotent XADD without its
    final ID, both are empty: it was a duplicate, which adds no entry.

    Redis keeps LIMIT when it makes an approximate trim exact, and gives an idempotent XADD its final ID.
    """
    options, at = divide(argv, ADD_OPTIONS if argv[0].upper() == b"XADD" else TRIM_OPTIONS)
    words, idmp, rest = argv[:2], [], argv[at:]
    for option in options:
        if option.token in (b"IDMP", b"IDMPAUTO"):
            idmp = option.words
        elif option.token != b"LIMIT":
            words += option.words
    if not idmp:
        return words + rest, []
    if rest[:1] == [b"*"]:
        return [], []
    producer, iid = idmp[1], idmp[2] if len(idmp) > 2 else content_id(rest[1:])
    return words + rest, [producer, iid, *rest[:1]]


#: Approximate size in bytes to which blocks are joined, so that runs of XADD can continue from one block to the next.
#: Data without a checksum is searched for runs in parts of this size.
_TOGETHER = 1 << 20
#: Number of bytes to parse between a search that found no run and the next search, because searching is slow.
_NEXT_SEARCH = 1 << 16
_STAR = ord("*")
_NOTHING: Any = object()


def original_names(path: Path) -> Iterator[Path]:
    """Return the possible names of the original of a file or directory that is loaded in part."""
    return (path.with_name(f"original-{number}-{path.name}") for number in count(1))


def refusal(found: UnsupportedTypes) -> str:
    """Return the reason why a file with these types is not loaded."""
    return f"{UnsupportedTypesError(found).reason}; 'skip-unsupported-types yes' loads the rest"


class LoadError(Exception):
    """A file that cannot be loaded. The text has the file, the offset if it is known, and the reason."""

    def __init__(self, path: Path, offset: int | None, reason: str) -> None:
        location = "" if offset is None else f", byte {offset}"
        super().__init__(f"{path}{location}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


class Replay:
    """Runs the commands of one file on a core, at the time ``now_us``. The core must be in replay mode.

    ``relieve`` is called repeatedly, to free memory. ``left_out``: keys that are left out because of their type.
    """

    def __init__(
        self,
        core: Core,
        now_us: int,
        relieve: Callable[[], None] = lambda: None,
        left_out: LeftOutKeys | None = None,
    ) -> None:
        self._core = core
        self._now_us = now_us
        self._relieve = relieve
        self._session: Session = core.open_session(now_us)
        self._scanner = Scanner()
        self._commands = Commands(core, self._session, now_us, left_out)
        self._added = 0
        #: End of the last command, as an offset in the argument of `run`; only comments follow.
        self.end = 0

    @property
    def commands(self) -> int:
        """Number of commands that have run."""
        return self._added + self._commands.count

    def close(self) -> None:
        """Close the session."""
        self._core.close_session(self._session)

    def run(self, data: memoryview) -> None:
        """Run a whole file. DamagedError and TornError have the offset of the fault; the commands before it have been
        run.

        Zeros at the end raise TornError: after a power failure, a file may have its new length without its content.
        """
        written = written_size(data)
        self._run_written(data[:written])
        if written < len(data):
            raise TornError(written)

    def _run_written(self, data: memoryview) -> None:
        together: list[Piece] = []
        offset = 0
        try:
            while offset < len(data):
                offset, piece = self._gather(data, offset, together)
                self._proven(data, together)
                together.clear()
                self._relieve()
                if piece is not None:
                    self.end = offset = self._unproven(data, piece.start)
        except TornError:
            # Run the complete pieces before the incomplete end.
            self._proven(data, together)
            if self._commands.in_transaction:
                raise TornError(self._commands.began) from None
            raise
        if self._commands.in_transaction:
            raise TornError(self._commands.began)

    def _gather(self, data: memoryview, offset: int, together: list[Piece]) -> tuple[int, Piece | None]:
        """Add proven pieces to ``together``, up to about `_TOGETHER` bytes. Return where they end, and the unproven
        piece that follows, if any.
        """
        size = 0
        for piece in pieces(data, offset):
            if not piece.proven:
                return piece.start, piece
            together.append(piece)
            self.end = offset = piece.end
            size += piece.end - piece.start
            if size >= _TOGETHER:
                return offset, None
        return len(data), None

    # -- pieces -------------------------------------------------------------------------------------------------------

    def _proven(self, data: memoryview, together: list[Piece]) -> None:
        if not together:
            return
        commands = b"".join([data[piece.start : piece.end] for piece in together])
        at = end = no_run_before = 0
        for piece in together:
            end += piece.end - piece.start
            # A run may continue into the next piece. Otherwise a command ends where the piece ends.
            while at < end:
                if not self._commands.in_transaction and at >= no_run_before:
                    run_end = self._as_run(commands, at, piece.end - end + at)
                    if run_end:
                        at = run_end
                        continue
                    no_run_before = at + _NEXT_SEARCH
                at = self._parsed(commands, at, end, piece.end - end)

    def _as_run(self, commands: bytes, at: int, offset: int) -> int:
        """Execute the run of XADDs at ``commands[at:]``; return its end, 0 if no run starts there.

        ``offset``: offset of the run in the file, for errors.
        """
        try:
            run = self._scanner.scan(commands, at)
            if run is None or self._core.execute_run(self._session, run, self._now_us) is None:
                return 0
        except (FatalError, Exception) as error:
            raise _unexpected(offset, b"XADD", error) from error
        self._added += run.count
        return run.end

    def _parsed(self, commands: bytes, at: int, end: int, shift: int) -> int:
        """Run ``commands[at:end]``; return ``end``. ``shift``: difference between offsets in the file and these."""
        try:
            at = self._run_commands(memoryview(commands)[:end], at, end, shift)
        except TornError as error:
            raise DamagedError(error.offset, "the checksum is right, but a command is incomplete") from None
        if at != end:
            raise DamagedError(at + shift, "the checksum is right, but these are not commands")
        return end

    def _unproven(self, data: memoryview, at: int) -> int:
        """Run commands without a checksum from ``at`` on; return where they end."""
        while at < len(data) and data[at] == _STAR:
            part = b"" if self._commands.in_transaction else bytes(data[at : at + _TOGETHER])
            run_end = self._as_run(part, 0, at) if part else 0
            at = at + run_end if run_end else self._run_commands(data, at, at + _NEXT_SEARCH)
            self._relieve()
        return at

    def _run_commands(self, data: memoryview, at: int, until: int, shift: int = 0) -> int:
        for argv, end in commands_in(data, at, until, shift):
            self._apply(argv, at + shift)
            at = end
        return at

    # -- commands -----------------------------------------------------------------------------------------------------

    def _apply(self, argv: list[bytes], offset: int) -> None:
        try:
            self._commands.apply(argv, offset)
            self._core.outbox.clear()
        except DamagedError:
            raise
        except (FatalError, Exception) as error:
            raise _unexpected(offset, argv[0], error) from error


def _unexpected(offset: int, word: bytes, error: BaseException) -> DamagedError:
    """Return the error for a command that raised an unexpected exception. Loading must stop: later commands would run
    on a half-done change.

    The stack is logged.
    """
    name = word[:100].decode("utf-8", "backslashreplace")
    LOG.critical("unexpected error in %s while loading a file", name, exc_info=error)
    return DamagedError(offset, f"{name} ... caused an unexpected error: {error.__cause__ or error!r}")


def as_written(argv: Any) -> bytes:
    """Return a command that hiredis has parsed in the form in which servers write it. Raises TypeError for any other
    data.
    """
    if type(argv) is not list or not argv:
        raise TypeError("not a command")
    b"".join(argv)
    written: bytes = hiredis.pack_command(tuple(argv))
    return written


def commands_in(data: memoryview, at: int, until: int, shift: int = 0) -> Iterator[tuple[list[bytes], int]]:
    """Yield the commands that start in ``data[at:until]``, with the end of each. Anything but a command ends them.

    Raises DamagedError for a command that is not in the form in which servers write it, and TornError if the data ends
    within a command; ``shift`` is added to their offset.
    """
    reader = hiredis.Reader(notEnoughData=_NOTHING)
    fed = at
    while at < min(until, len(data)) and data[at] == _STAR:
        try:
            argv = reader.gets()
            if argv is _NOTHING:
                if fed == len(data):
                    raise TornError(at + shift)
                reader.feed(bytes(data[fed : fed + _NEXT_SEARCH]))
                fed = min(fed + _NEXT_SEARCH, len(data))
                continue
            # hiredis does not check the line ends after words.
            written = as_written(argv)
            is_written = data[at : at + len(written)] == written
        except (hiredis.ProtocolError, TypeError):
            is_written = False
        if not is_written:
            raise DamagedError(at + shift, "this is not a command, or a length in it is wrong")
        at += len(written)
        yield argv, at
