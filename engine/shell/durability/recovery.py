"""Replay of the commands of a log on an empty core, or of a master's commands on a replica's core.

Data is processed in large pieces. Runs of similar XADDs are added in one operation (`engine.wire.bulk`), other runs of
XADDs like a client's pipeline (`engine.core.dispatch.Core.execute_run`). The other commands run one by one
(`commands_in`). A piece is data verified by a block's checksum, or data that was written by Redis, or is too long for a
block.

Redis writes some commands in a form that it accepts only from itself; `as_client_command` converts them to the form
that clients may send. Every command must succeed: after a failure, later commands would run on different data than on
the master or before the crash. So an error means that the file is damaged, and loading fails with the file and offset.

A file with types that the engine does not store is refused, or loaded without these keys (``skip-unsupported-types``).
The file that replaces it lacks them. So when the original is loaded, it gets a second name next to it,
``original-1-NAME`` or the next free number. A later process then needs not know how the data was loaded. The log's
directory gets such a copy as a whole, which any server that stores these types can load. The names are hard links: they
need no space, and a crash between two steps loses neither name.

A key of a log with such a value is left out until a command replaces or deletes the value: commands that change it are
skipped, and a key to which it is renamed or copied is left out, too. Lists, sets and sorted sets disappear with their
last element. So a command that succeeds only on another type ends the omission.
"""

from __future__ import annotations

import re
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
from engine.core.protocol import ids
from engine.core.protocol.replies import CommandError
from engine.core.protocol.xadd import ADD_OPTIONS, TRIM_OPTIONS, divide
from engine.core.streams.idempotency import content_id
from engine.core.streams.stream import Stream
from engine.core.table.registry import called_by
from engine.core.table.unsupported import family_of
from engine.settings.config import Config
from engine.shell.durability.files import Files
from engine.shell.durability.log import Piece, TornError, pieces, written_size
from engine.shell.durability.segments import Documents
from engine.shell.observation.log_lines import LOG
from engine.text import messages
from engine.wire.bulk import Scanner, UniformAdds


class Originals:
    """The files of one engine that are loaded in part, and their copies."""

    def __init__(self, config: Config, files: Files, documents: Documents) -> None:
        self._config = config
        self._files = files
        self._documents = documents
        #: Number of items that the last load left out.
        self.left_out = 0

    @property
    def skips(self) -> bool:
        """Whether keys of unsupported types are left out."""
        return self._config.flag("skip-unsupported-types")

    def loaded(self, path: Path, found: UnsupportedTypes) -> None:
        """Record that a file, or the log in a directory, was loaded without the items in ``found``. If there are any,
        the caller keeps the original. Raises ForeignError if they must not be left out.
        """
        self.left_out = found.total
        if not found:
            return
        if not self.skips:
            reason = f"{UnsupportedTypesError(found).reason}; 'skip-unsupported-types yes' loads the rest"
            raise ForeignError(found.offset, reason)
        LOG.warning("%s: left out %s (skip-unsupported-types)", path, found)

    def keep(self, path: Path) -> None:
        """Keep a file, if it exists and an earlier start has not kept it. Raises OSError on failure."""
        files = self._files
        if files.size(path) < 0:
            return
        kept = re.compile(rf"original-[0-9]+-{re.escape(path.name)}")
        others = [path.with_name(name) for name in files.names(path.parent) if kept.fullmatch(name)]
        if not any(files.is_same(path, other) for other in others):
            target = next(name for name in _names(path) if name not in others)
            self._link(path, target)
            _log_kept(path, target)
        files.sync_directory(path.parent)

    def keep_log(self, folder: Path, names: list[str]) -> None:
        """Keep these files of a log's directory. The last one is the manifest, which completes the copy. Raises OSError
        on failure.
        """
        target = next(
            other for other in _names(folder) if all(self._is_free(folder / name, other / name) for name in names)
        )
        self._files.make_directory(target)
        for name in names:
            self._link(folder / name, target / name)
        self._files.sync_directory(target)
        self._files.sync_directory(folder.parent)
        _log_kept(folder, target)

    def _is_free(self, path: Path, target: Path) -> bool:
        """Return whether a name is free, or was given to the same file before a crash."""
        return self._files.size(target) < 0 or self._files.is_same(path, target)

    def _link(self, path: Path, target: Path) -> None:
        if self._files.size(target) < 0:
            self._files.link(path, target)
        self._documents.note(target, self._documents.named_by(path))


def _log_kept(path: Path, target: Path) -> None:
    LOG.warning("kept the original of %s as %s", path, target)


def _names(path: Path) -> Iterator[Path]:
    """Return the possible names of a path's copy."""
    return (path.with_name(f"original-{number}-{path.name}") for number in count(1))


#: Commands that change a string or hash in place, so that it keeps what the engine lacks, such as fields that expire.
_IN_PLACE = frozenset(b"append decr decrby incr incrby hset hsetnx hmset hdel hincrby".split())
#: Commands that concern a key with a value of any type, and change nothing that the engine stores.
_OF_ANY_TYPE = frozenset((b"expire", b"expireat", b"pexpire", b"pexpireat", b"persist", b"touch"))
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
#: Commands that move an element from their first key to their second.
_TWO_KEYS = frozenset((b"rpoplpush", b"brpoplpush", b"lmove", b"blmove", b"smove"))
_MOVES = frozenset((b"rename", b"renamenx", b"copy", b"move"))


class LeftOutKeys:
    """The keys of one log that are left out. ``found`` counts them, and has those of the log's base.

    ``skips``: whether the rest of the log is loaded. Otherwise the caller discards the core, so no command runs after
    the first one that is left out.
    """

    def __init__(self, core: Core, found: UnsupportedTypes, *, skips: bool) -> None:
        self._core = core
        self._found = found
        self._skips = skips
        self._keys = found.keys if found.keys is not None else {}
        self._counted = set(self._keys)

    def leaves_out(self, db: int, argv: list[bytes], offset: int) -> bool:
        """Return whether a command must not run."""
        family = family_of(argv[0])
        if family is not None:
            self._add(family.decode(), db, argv, offset)
            return True
        if self._found and not self._skips:
            return True
        return bool(self._keys) and self._concerns(db, argv)

    def leave_out_value(self, kind: str, key: bytes, db: int, offset: int) -> None:
        """Leave out a key whose value has an unsupported type."""
        if (db, key) not in self._counted:
            self._counted.add((db, key))
            self._found.add_key(kind, key, db, offset)
        self._mark(db, key, kind)

    def _add(self, family: str, db: int, argv: list[bytes], offset: int) -> None:
        keys = _keys_of(argv)
        for key in keys:
            self.leave_out_value(family, key, db, offset)
        if not keys:
            self._found.add(family, _without_key(argv), offset)

    def _mark(self, db: int, key: bytes, kind: str) -> None:
        self._keys[db, key] = kind
        if db < len(self._core.databases):
            self._core.databases[db].delete(key)

    def _is_left_out(self, db: int, key: bytes) -> bool:
        """Return whether the key is left out; it is not if a later command has created it."""
        if (db, key) in self._keys and self._core.databases[db].holds(key):
            del self._keys[db, key]
        return (db, key) in self._keys

    def _concerns(self, db: int, argv: list[bytes]) -> bool:
        name = argv[0].lower()
        if name in (b"flushall", b"flushdb"):
            for where in [where for where in self._keys if name == b"flushall" or where[0] == db]:
                del self._keys[where]
            return False
        if name == b"swapdb":
            self._swap(int(argv[1]), int(argv[2]))
            return False
        command = called_by(argv)
        keys = () if command is None or not command.arity_fits(len(argv)) else command.keys.of(argv)
        left_out = [key for key in keys if self._is_left_out(db, key)]
        if not left_out:
            return False
        if name in _MOVES and argv[1] in left_out:
            self._move(name, db, argv)
            return True
        kind = self._keys[db, left_out[0]]
        if name in _OF_ANY_TYPE or (name in _IN_PLACE and kind in _LIKE_OURS):
            return True
        for key in left_out:
            del self._keys[db, key]
        return False

    def _move(self, name: bytes, db: int, argv: list[bytes]) -> None:
        """Follow a value that is left out to its new key."""
        target_db, target = db, argv[2]
        if name == b"move":
            target_db, target = int(argv[2]), argv[1]
        elif b"DB" in map(bytes.upper, argv[3:]):
            target_db = int(argv[4 if argv[3].upper() == b"DB" else 5])
        kind = self._keys[db, argv[1]]
        if name != b"copy":
            del self._keys[db, argv[1]]
        self._mark(target_db, target, kind)

    def _swap(self, first: int, second: int) -> None:
        other = {first: second, second: first}
        moved = {(other.get(db, db), key): kind for (db, key), kind in self._keys.items()}
        self._keys.clear()
        self._keys.update(moved)


def _without_key(argv: list[bytes]) -> str:
    """Return a description of a command that names no key."""
    is_library = argv[0].lower() == b"function" and len(argv) > 1
    return shown_library(argv[-1]) if is_library else f"'{shown(argv[0])}'"


def _keys_of(argv: list[bytes]) -> list[bytes]:
    """Return the keys that an unsupported command may change; the scripts of old servers name theirs."""
    name = argv[0].lower()
    if name in (b"function", b"script"):
        return []
    if name in (b"eval", b"evalsha"):
        return argv[3 : 3 + int(argv[2])] if argv[2:] and argv[2].isdigit() else []
    if name == b"bitop":
        return argv[2:3]
    if name == b"msetnx":
        return argv[1::2]
    if name == b"msetex":
        return argv[2 : 2 + 2 * int(argv[1]) : 2] if argv[1:] and argv[1].isdigit() else []
    if name in (b"sort", b"georadius", b"georadiusbymember"):
        words = [word.upper() for word in argv]
        return [argv[at + 1] for at, word in enumerate(words[:-1]) if word in (b"STORE", b"STOREDIST")]
    return argv[1:3] if name in _TWO_KEYS else argv[1:2]


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
        """Run a command, or queue it until the end of its transaction. Raises DamagedError if a command fails.

        The effects of a transaction are sealed as one transaction.
        """
        name = argv[0].upper()
        if name == b"MULTI":
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
        left_out = self._left_out
        if left_out is not None and left_out.leaves_out(self._session.db, argv, offset):
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
            left_out.leave_out_value(reply.kind, argv[1], self._session.db, offset)
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
    return DamagedError(offset, f"{shown} ... failed: {error.text.decode('utf-8', 'backslashreplace')}")


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
        self._alike = UniformAdds()
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
            alike = self._alike.scan(commands, at)
            if alike is not None and self._core.load_run(self._session, alike, self._now_us):
                self._added += alike.count
                return alike.end
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
