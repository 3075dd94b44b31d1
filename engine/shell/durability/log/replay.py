"""Reading an append-only file back: its commands, run on an empty core.

What is proven by a block's sum is taken in large pieces: runs of XADD go the way that pipelines go
(:meth:`engine.core.dispatch.Core.execute_run`), the rest through hiredis. What has no sum, because a real Redis wrote
it, is read command by command, strictly. Either way every command must succeed: an error is a sign that this is not
what was written, and loading ends with the file and the place.

A real Redis writes some commands in a form that it only accepts from itself; :func:`as_sent` gives them the form that
anybody may send.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hiredis

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.environment.failures import FatalError
from engine.core.formats.damage import DamagedError
from engine.core.protocol import ids
from engine.core.protocol.replies import CommandError
from engine.core.streams.idempotency import content_id
from engine.core.streams.stream import Stream
from engine.shell.durability.formats.blocks import Piece, TornError, end_of_writing, pieces_from
from engine.shell.observation.reporting import LOG
from engine.text.messages import general
from engine.wire.bulk import Scanner

#: Blocks are put together to about this size, so that runs of XADD go on from one block to the next.
_TOGETHER = 1 << 20
_WINDOW = 4 * _TOGETHER
#: Where there was no run, the next look for one comes so many bytes later: a look costs as much as reading some of
#: them.
_NEXT_LOOK = 1 << 16
_NOTHING: Any = object()


class LoadError(Exception):
    """A file that cannot be loaded. The text names the file and, where there is one, the byte."""

    def __init__(self, path: Path, offset: int | None, what: str) -> None:
        place = "" if offset is None else f", byte {offset}"
        super().__init__(f"{path}{place}: {what}")
        self.path = path
        self.offset = offset
        self.what = what


class Replay:
    """Runs the commands of one file on a core, at the time ``now_us``. The core must be replaying."""

    def __init__(self, core: Core, now_us: int) -> None:
        self._core = core
        self._now_us = now_us
        self._session: Session = core.open_session(now_us)
        self._scanner = Scanner()
        #: The commands since MULTI, and where that stands; None outside a transaction.
        self._queue: list[tuple[int, list[bytes]]] | None = None
        self._began = 0
        self.commands = 0

    def close(self) -> None:
        """The core forgets the session."""
        self._core.close_session(self._session)

    def run(self, data: memoryview) -> None:
        """All of a file; DamagedError and TornError say where it stops being one. What comes before has been run.

        Zeros at the end are where it stops: after a power failure a file may have its length before its content.
        """
        written = end_of_writing(data)
        self._run_written(data[:written])
        if written < len(data):
            raise TornError(written)

    def _run_written(self, data: memoryview) -> None:
        together: list[Piece] = []
        place = 0
        try:
            while place < len(data):
                place, piece = self._gather(data, place, together)
                self._proven(data, together)
                together.clear()
                if piece is not None:
                    place = self._unproven(data, piece.start)
        except TornError:
            # What comes before the torn end counts.
            self._proven(data, together)
            if self._queue is not None:
                raise TornError(self._began) from None
            raise
        if self._queue is not None:
            raise TornError(self._began)

    @staticmethod
    def _gather(data: memoryview, place: int, together: list[Piece]) -> tuple[int, Piece | None]:
        """Add proven pieces to ``together``, up to about :data:`_TOGETHER` bytes; where they end, and the unproven
        piece that comes then, if one does.
        """
        size = 0
        for piece in pieces_from(data, place):
            if not piece.proven:
                return piece.start, piece
            together.append(piece)
            place = piece.end
            size += piece.end - piece.start
            if size >= _TOGETHER:
                return place, None
        return len(data), None

    # -- pieces -------------------------------------------------------------------------------------------------------

    def _proven(self, data: memoryview, together: list[Piece]) -> None:
        if not together:
            return
        commands = b"".join([data[piece.start : piece.end] for piece in together])
        at = end = no_run_before = 0
        for piece in together:
            end += piece.end - piece.start
            # A run may have gone on beyond this piece; otherwise a piece ends where a command ends.
            while at < end:
                if self._queue is None and at >= no_run_before:
                    run_end = self._as_run(commands, at, piece.end - end + at)
                    if run_end:
                        at = run_end
                        continue
                    no_run_before = at + _NEXT_LOOK
                at = self._parsed(commands, at, end, piece.end - end + at)

    def _as_run(self, commands: bytes, at: int, place: int) -> int:
        """Take a run of XADD, which stands at ``place`` in the file; where it ends, 0 where there is none."""
        run = self._scanner.scan(commands, at)
        try:
            if run is None or self._core.execute_run(self._session, run, self._now_us) is None:
                return 0
        except (FatalError, Exception) as error:
            raise _unforeseen(place, b"XADD", error) from error
        self.commands += run.count
        return run.end

    def _parsed(self, commands: bytes, at: int, end: int, place: int) -> int:
        """Run commands[at:end], which stand at ``place`` in the file; ``end``."""
        reader = hiredis.Reader(notEnoughData=_NOTHING)
        try:
            reader.feed(commands, at, end - at)
            found = list(iter(reader.gets, _NOTHING))
            for argv in found:
                b"".join(argv)
        except (hiredis.ProtocolError, TypeError):
            raise DamagedError(place, "the sum is right, but these are no commands") from None
        if reader.has_data() or not all(found):
            raise DamagedError(place, "the sum is right, but these are not whole commands")
        for argv in found:
            self._take(argv, place)
        return end

    def _unproven(self, data: memoryview, start: int) -> int:
        """Commands without a sum from ``start`` on; where they end."""
        window = bytes(data[start : start + _WINDOW])
        base, at, no_run_before = start, 0, start
        while True:
            if at + _TOGETHER > len(window) and base + len(window) < len(data):
                base += at
                window, at = bytes(data[base : base + _WINDOW]), 0
            place = base + at
            if window[at : at + 1] != b"*":
                return place
            if self._queue is None and place >= no_run_before:
                run_end = self._as_run(window, at, place)
                if run_end:
                    at = run_end
                    continue
                no_run_before = place + _NEXT_LOOK
            try:
                argv, at = parse_command(window, at, base)
            except TornError:
                # Perhaps a long one, of which the window shows a part.
                argv, base = parse_command(data, place)
                window, at = bytes(data[base : base + _WINDOW]), 0
            self._take(argv, place)

    # -- commands -----------------------------------------------------------------------------------------------------

    def _take(self, argv: list[bytes], place: int) -> None:
        name = argv[0].upper()
        if name == b"MULTI":
            if self._queue is not None:
                raise DamagedError(place, "MULTI within a transaction")
            self._queue, self._began = [], place
        elif name == b"EXEC":
            if self._queue is None:
                raise DamagedError(place, "EXEC without MULTI")
            queue, self._queue = self._queue, None
            for at, queued in queue:
                self._run(queued, at)
        elif self._queue is not None:
            self._queue.append((place, argv))
        else:
            self._run(argv, place)

    def _run(self, argv: list[bytes], place: int) -> None:
        self.commands += 1
        try:
            name = argv[0].upper()
            if name == b"SELECT" and len(argv) == 2 and argv[1].isdigit() and int(argv[1]) < len(self._core.databases):
                self._session.db = int(argv[1])
                return
            if name == b"XIDMPRECORD" and len(argv) == 5:
                self._record(argv, place)
                return
            record: list[bytes] = []
            if name in (b"XADD", b"XTRIM") and len(argv) > 4 and not argv[2][:1].isdigit():
                argv, record = as_sent(argv)
            reply = self._core.execute(self._session, argv, self._now_us)
            if isinstance(reply, CommandError):
                shown = b" ".join(argv[:3])[:100].decode("utf-8", "backslashreplace")
                raise DamagedError(place, f"{shown} ... fails: {reply.text.decode('utf-8', 'backslashreplace')}")
            if record:
                self._record([b"XIDMPRECORD", argv[1], *record], place)
            self._core.outbox.clear()
        except DamagedError:
            raise
        except (FatalError, Exception) as error:
            raise _unforeseen(place, argv[0], error) from error

    def _record(self, argv: list[bytes], place: int) -> None:
        """Remember an idempotent ID, also that of an entry which has gone, and in place of one forgotten by age."""
        _, key, producer, iid, word = argv
        stream = self._core.databases[self._session.db].peek(key)
        if not isinstance(stream, Stream) or not producer or not iid:
            raise DamagedError(place, "XIDMPRECORD for what is not there: " + general.NO_SUCH_KEY.decode())
        producers = self._core.streams.producers_of(stream)
        producers.by_producer.get(producer, {}).pop(iid, None)
        try:
            producers.remember(producer, iid, ids.parse(word))
        except CommandError as error:
            raise DamagedError(place, error.text.decode()) from None


def _unforeseen(place: int, word: bytes, error: BaseException) -> DamagedError:
    """A command of the file led to an error that nobody foresaw: what comes after it would be run on half of its work.

    The stack is logged, because it says what is to be mended.
    """
    name = word[:100].decode("utf-8", "backslashreplace")
    LOG.critical("unforeseen error in %s while a file was loaded", name, exc_info=error)
    return DamagedError(place, f"{name} ... leads to an unforeseen error: {error.__cause__ or error!r}")


def parse_command(data: bytes | memoryview, at: int, base: int = 0) -> tuple[list[bytes], int]:
    """The command at ``at`` and where it ends, read strictly; places in errors are ``base`` more than in ``data``."""
    count, place = _header(data, at, b"*", base)
    if count < 1:
        raise DamagedError(base + at, "a command without words")
    argv = []
    for _ in range(count):
        begin = place
        try:
            size, place = _header(data, place, b"$", base)
        except TornError:
            raise TornError(base + at) from None
        end = place + size
        if end + 2 > len(data):
            if bytes(data[end:]) != b"\r\n"[: max(len(data) - end, 0)]:
                raise DamagedError(base + begin, "a word is not as long as it says")
            raise TornError(base + at)
        if bytes(data[end : end + 2]) != b"\r\n":
            raise DamagedError(base + begin, "a word is not as long as it says")
        argv.append(bytes(data[place:end]))
        place = end + 2
    return argv, place


def _header(data: bytes | memoryview, at: int, mark: bytes, base: int) -> tuple[int, int]:
    line = bytes(data[at : at + 24])
    end = line.find(b"\r\n")
    digits = line[1:end] if end >= 0 else line[1:].rstrip(b"\r")
    if (line and line[:1] != mark) or (digits and (not digits.isdigit() or (digits[:1] == b"0" and digits != b"0"))):
        raise DamagedError(base + at, f"expected '{mark.decode()}' and a number")
    if end < 0:
        if len(line) == 24:
            raise DamagedError(base + at, "a number without an end")
        raise TornError(base + at)
    if not digits:
        raise DamagedError(base + at, f"expected '{mark.decode()}' and a number")
    return int(digits), at + end + 2


def as_sent(argv: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """XADD and XTRIM as a client may send them: no LIMIT beside an exact threshold; and [producer, iid, ID] apart.

    A Redis leaves LIMIT standing where it made an approximate trim exact, and gives an idempotent XADD its final ID.
    """
    is_add = argv[0].upper() == b"XADD"
    words, producer, iid, at = argv[:2], b"", b"", 2
    idmp: list[bytes] = []
    end = len(argv)
    while at < end:
        word = argv[at].upper()
        if word == b"LIMIT":
            at += 2
            continue
        if is_add and word == b"IDMP" and at + 2 < end:
            producer, iid = argv[at + 1 : at + 3]
            idmp = argv[at : at + 3]
            at += 3
            continue
        if is_add and word == b"IDMPAUTO" and at + 1 < end:
            producer = argv[at + 1]
            idmp = argv[at : at + 2]
            at += 2
            continue
        if word in (b"MAXLEN", b"MINID"):
            size = 3 if argv[at + 1 : at + 2] in ([b"="], [b"~"]) else 2
        elif word in (b"NOMKSTREAM", b"KEEPREF", b"DELREF", b"ACKED"):
            size = 1
        else:
            break
        words += argv[at : at + size]
        at += size
    rest = argv[at:]
    if not producer:
        return words + rest, []
    if rest[:1] == [b"*"]:
        # A repetition: it finds what the first one left, and adds nothing.
        return words + idmp + rest, []
    return words + rest, [producer, iid or content_id(rest[1:]), *rest[:1]]
