r"""Writer of the log's newest increment: writes effects as blocks, and syncs by the ``appendfsync`` policy.

It owns the descriptor and the bytes that wait to be written; `engine.shell.durability.log_files` owns the set of files.
While the log is open, no effects are dropped. If the disk rejects a write, the file is truncated to its last complete
block, the bytes wait in memory, and each call of `Log.flush` tries again. After a failed fsync, or if part of a block
could not be cut off, the content of the file is unknown: it is broken. Nothing more is written to it, and a new file
must be written from memory.

With ``everysec``, fsync runs in a thread. New blocks wait until it is done, because the kernel may block a write to a
file that is being synced. After two seconds they are written anyway.

A block has the commands collected since the last write, after a line with length and checksum. Redis skips the line as
a comment, because it starts with ``#``, so ``redis-server`` can read and continue the file. The checksums let the
engine detect a flipped bit::

    #PS <length> <CRC-32 of the commands> <CRC-32 of this line so far, seeded with its offset in the file>\r\n

Each number has eight hexadecimal digits; the line has 32 bytes. The length distinguishes a torn write, after which the
file is truncated, from changed bytes, for which the file is rejected. Commands without such a line were written by
Redis, or exceed ``BLOCK_LIMIT``; only their syntax can be checked. Another comment contains the data's position in a
replication history (`engine.shell.durability.position`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hiredis

from engine.core.dispatch import Core
from engine.core.formats.damage import DamagedError
from engine.core.keyspace.changes import Effects
from engine.shell.durability.background import Background
from engine.shell.durability.files import Files, write_all
from engine.shell.durability.position import LINE_SIZE, line_at

HEAD_SIZE = 32
#: Maximum length of a block in bytes. If its commands are longer, they are written without the line.
BLOCK_LIMIT = 0xFFFF_FFFF
#: Number of bytes to search for zeros at a time.
_ZEROS = 1 << 16
_HEAD = re.compile(rb"#PS ([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{8})\r\n")
_TIME = re.compile(rb"#TS:[0-9]{1,20}\r?\n")
#: A comment line that ends too early.
_TORN = re.compile(rb"#[PRST0-9a-f: ]{0,79}\r?")


class TornError(Exception):
    """The file ends within a block, command or transaction that starts at ``offset``, or in zeros that start there. The
    bytes before ``offset`` are good.
    """

    def __init__(self, offset: int) -> None:
        super().__init__()
        self.offset = offset


def written_size(data: memoryview) -> int:
    """Return the size of a file without zeros at its end. (Written content always ends with a line break.)"""
    end = len(data)
    while end:
        begin = max(end - _ZEROS, 0)
        there = len(bytes(data[begin:end]).rstrip(b"\0"))
        if there:
            return begin + there
        end = begin
    return 0


def head(offset: int, commands: bytes) -> bytes:
    """Return the line for commands whose block starts at ``offset`` in the file."""
    line = b"#PS %08x %08x " % (len(commands), zlib.crc32(commands))
    return b"%b%08x\r\n" % (line, zlib.crc32(line, offset & 0xFFFF_FFFF))


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes [start, end) of a file. ``proven``: whether they are complete commands, verified by a checksum."""

    start: int
    end: int
    proven: bool


def pieces(data: memoryview, offset: int = 0) -> Iterator[Piece]:
    """Yield the parts of a file that contain commands, in order, without comment lines and the heads of blocks.

    ``offset`` must lie between two commands. Raises DamagedError at the first damage, and TornError if the file ends
    within a head or block. A piece without a head extends to the end of the file. Its reader finds where the commands
    end, and continues from there.
    """
    size = len(data)
    while offset < size:
        line = bytes(data[offset : offset + HEAD_SIZE])
        if line[:1] == b"*":
            yield Piece(offset, size, proven=False)
            return
        found = _HEAD.fullmatch(line)
        if found is None:
            if line_at(data, offset) is not None:
                offset += LINE_SIZE
                continue
            time = _TIME.match(line)
            if time is None:
                _raise(bytes(data[offset : offset + LINE_SIZE]), offset, size)
                return
            offset += time.end()
            continue
        length, total, head_sum = (int(word, 16) for word in found.groups())
        if zlib.crc32(line[:-10], offset & 0xFFFF_FFFF) != head_sum:
            raise DamagedError(offset, "checksum mismatch in the head of a block")
        begin = offset + HEAD_SIZE
        end = begin + length
        if end > size:
            raise TornError(offset)
        if zlib.crc32(data[begin:end]) != total:
            raise DamagedError(begin, f"checksum mismatch in the {length} bytes from here on")
        yield Piece(begin, end, proven=True)
        offset = end


def _raise(line: bytes, offset: int, size: int) -> None:
    if offset + len(line) == size and _TORN.fullmatch(line):
        raise TornError(offset)
    raise DamagedError(offset, "neither a command nor the head of a block")


ALWAYS, EVERY_SECOND, NEVER = b"always", b"everysec", b"no"
_SECOND = 1.0
_LONGEST_WAIT = 2.0
#: Maximum number of unsynced bytes for an fsync that counts as short.
_SHORT_SYNC = 1 << 20


class Log:
    """One increment, open for writing. ``appended``, ``written`` and ``synced`` count the bytes that were collected,
    written and synced since the engine started, in all files. ``on_turned`` is called when `flush` fails or succeeds
    again.
    """

    # A single class, because replies depend on all three offsets and on the failures of writing and syncing.

    def __init__(
        self,
        core: Core,
        files: Files,
        background: Background,
        clock: Callable[[], float],
        on_turned: Callable[[], None],
    ) -> None:
        self._core = core
        self._files = files
        self._background = background
        self._clock = clock
        self._on_turned = on_turned
        #: Whether the last `flush` succeeded.
        self._was_safe = True
        #: Adds effects to the replication stream, and returns them encoded; None if there is no such stream.
        self.feed: Callable[[Effects], Effects] | None = None
        self.policy = EVERY_SECOND
        self.path: Path | None = None
        self.size = 0
        self.appended = self.written = self.synced = 0
        #: Error of the last write or fsync; None if it succeeded.
        self.error: OSError | None = None
        #: Whether the file is unusable, and a new file is needed.
        self.is_broken = False
        #: Number of writes that stopped waiting for an fsync.
        self.delayed = 0
        #: Number of fsyncs.
        self.syncs = 0
        #: Descriptor of the file; -1 if there is no file.
        self._fd = -1
        #: Number of files used so far, to recognise the late end of an fsync of an earlier file.
        self._number = 0
        self._db = -1
        self._waiting: list[bytes] = []
        #: Effects since an image was taken, for the increment after that image; None if they are not needed.
        self.tee: Effects | None = None
        self._syncing = False
        self._last_sync = clock()
        self._waits_since: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is an open file."""
        return self._fd >= 0

    @property
    def trouble(self) -> str:
        """Reason why effects cannot be written; empty if they can be written."""
        return str(self.error.strerror or self.error) if self.error is not None else ""

    @property
    def waiting(self) -> int:
        """Number of bytes not written yet."""
        return self.appended - self.written

    @property
    def syncing(self) -> bool:
        """Whether an fsync is running in a thread."""
        return self._syncing

    def facts(self) -> dict[str, Any]:
        """Return INFO's facts about the current file."""
        return {
            "aof_buffer_length": self.waiting,
            "aof_pending_bio_fsync": int(self._syncing),
            "aof_delayed_fsync": self.delayed,
            "engine_aof_fsyncs": self.syncs,
        }

    # -- the file -----------------------------------------------------------------------------------------------------

    def use(self, path: Path, fd: int, size: int) -> None:
        """Continue in another file, of ``size`` bytes. Everything appended so far must be on disk."""
        assert not self._waiting, "the waiting bytes belong in the previous file"
        if self.is_open:
            self._leave()
            self.synced = max(self.synced, self.written)
        self.path, self._fd, self.size = path, fd, size
        self._number += 1
        self._db = -1
        self.error, self.is_broken = None, False

    def drop_waiting(self) -> None:
        """Discard the waiting bytes: their effects are on disk in another form, or not needed."""
        self._waiting = []
        self._waits_since = None
        self.written = self.appended

    def flush_and_sync(self) -> bool:
        """Write and sync everything appended so far; return whether that succeeded."""
        if not self.is_open:
            return True
        if not self.flush(force=True):
            return False
        try:
            self._sync_now()
        except OSError:
            return False
        return True

    def is_nearly_synced(self) -> bool:
        """Return whether an fsync of the file would be short. If it would be long, start one in a thread."""
        if not self.is_open or self.error is not None:
            return True
        if not self._syncing and self.written - self.synced > _SHORT_SYNC:
            self._sync_in_background()
        return not self._syncing

    def give_up(self, error: OSError) -> None:
        """Stop writing to the file, because its content does not match the data after ``error``."""
        self.error, self.is_broken = error, True

    def _leave(self) -> None:
        fd, self._fd = self._fd, -1
        # An fsync of the file may be running or queued, so the same thread closes the file afterwards.
        self._background(lambda: self._files.close(fd), lambda error: None)  # noqa: ARG005

    def close(self) -> None:
        """Write and sync everything, and close the file. Raises OSError on failure; unwritten bytes are then dropped.

        Nothing is added to a broken file: a complete block after a partial block would make the file unreadable.
        """
        if not self.is_open:
            return
        try:
            if self.is_broken:
                raise self.error or OSError("the file is no longer usable")
            if self._waiting:
                self._write()
            self._sync_now()
        finally:
            self._leave()
            self.drop_waiting()
            self.path, self.size, self.error, self.is_broken = None, 0, None, False

    def end_with(self, line: Callable[[int], bytes]) -> None:
        """Add a last line to the file, unless the disk rejects appended bytes. ``line`` returns the line for an offset.

        Raises OSError on failure; the file is then unchanged, or abandoned.
        """
        if not self.is_open or not self.flush(force=True) or self._waiting or self.is_broken:
            return
        try:
            self.size += write_all(self._files, self._fd, [line(self.size)])
        except OSError as error:
            if not self._cut_rejected():
                self.give_up(error)
            raise

    # -- appending ----------------------------------------------------------------------------------------------------

    def append(self, effects: Effects) -> bool:
        """Send the effects of commands whose replies are not sent yet to the replicas, and collect them; nothing is
        written before `flush`. Return whether these replies must wait for an fsync, one for all of an iteration.
        """
        if self.feed is not None:
            effects = self.feed(effects)
        if self.tee is not None:
            self.tee += effects
        if self._fd >= 0:
            out, self._db = encode_effects(effects, self._db)
            self._waiting += out
            self.appended += sum(map(len, out))
        return self.policy == ALWAYS

    def flush(self, *, force: bool = False) -> bool:
        """Write the waiting bytes and sync by the policy; return whether they are as safe as the policy requires.

        ``force``: do not wait for a running fsync.
        """
        telemetry = self._core.telemetry
        began = self._clock() if telemetry.latency_ms else 0.0
        safe = self._write_and_sync(force=force)
        if began:
            event = b"aof-fsync-always" if self.policy == ALWAYS else b"aof-write"
            telemetry.note_latency(event, event, int((self._clock() - began) * 1000), self._core.changes.now)
        if safe is not self._was_safe:
            self._was_safe = safe
            self._on_turned()
        return safe

    def _write_and_sync(self, *, force: bool) -> bool:
        if self._fd < 0 or self.is_broken:
            return not self.is_broken
        try:
            if self._waiting and (force or not self._better_wait()):
                self._write()
            if self.policy == ALWAYS and self.synced < self.written:
                self._sync_now()
        except OSError:
            return False
        if self.error is not None and not self._waiting:
            self.error = None
        if self.policy == EVERY_SECOND:
            self._sync_in_time()
        return True

    def _better_wait(self) -> bool:
        if not self._syncing or self.policy != EVERY_SECOND:
            return False
        now = self._clock()
        if self._waits_since is None:
            self._waits_since = now
        if now - self._waits_since < _LONGEST_WAIT:
            return True
        self.delayed += 1
        return False

    def _write(self) -> None:
        block = as_block(b"".join(self._waiting), self.size)
        try:
            size = write_all(self._files, self._fd, block)
        except OSError as error:
            self.error, self.is_broken = error, not self._cut_rejected()
            raise
        self.size += size
        self._waiting = []
        self._waits_since = None
        self.written = self.appended

    def _cut_rejected(self) -> bool:
        """Cut off the part of a block that a rejected write may have left; return whether that succeeded."""
        try:
            self._files.cut(self._fd, self.size)
        except OSError:
            return False
        return True

    # -- syncing ------------------------------------------------------------------------------------------------------

    def _sync_now(self) -> None:
        self.syncs += 1
        try:
            self._files.sync(self._fd)
        except OSError as error:
            self.give_up(error)
            raise
        self.synced = max(self.synced, self.written)

    def _sync_in_time(self) -> None:
        if self._syncing or self.synced >= self.written:
            return
        if self._clock() - self._last_sync >= _SECOND:
            self._sync_in_background()

    def _sync_in_background(self) -> None:
        """Start an fsync of everything written so far in a thread."""
        fd, number, target = self._fd, self._number, self.written
        self._syncing = True
        self.syncs += 1
        self._last_sync = self._clock()
        self._background(lambda: self._files.sync(fd), lambda error: self._synced_in_background(number, target, error))

    def _synced_in_background(self, number: int, target: int, error: OSError | None) -> None:
        self._syncing = False
        if error is not None:
            if number == self._number and self.is_open:
                self.give_up(error)
            return
        self.synced = max(self.synced, target)
        if self._waiting:
            self.flush()


def encode_effects(effects: Effects, db: int = -1) -> tuple[list[bytes], int]:
    """Encode effects as RESP commands; return the commands and the database of the last one.

    ``db``: database that is selected before the first command; -1 if none is.
    """
    out: list[bytes] = []
    pack = hiredis.pack_command
    for index, argv in effects:
        if index != db:
            out.append(_select(index))
            db = index
        out.append(argv if isinstance(argv, bytes) else pack(tuple(argv)))  # type: ignore[arg-type]
    return out, db


def as_block(commands: bytes, offset: int) -> list[bytes]:
    """Return commands as a block at ``offset`` of its file; without a head if they are too long for a block."""
    return [commands] if len(commands) > BLOCK_LIMIT else [head(offset, commands), commands]


def _select(index: int) -> bytes:
    return b"*2\r\n$6\r\nSELECT\r\n$%d\r\n%d\r\n" % (len(b"%d" % index), index)
