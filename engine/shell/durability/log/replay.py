"""Reading an append-only file back: its commands, run on an empty core.

What is proven by a block's sum is taken in large pieces: runs of XADD that are alike are added at once
(:mod:`engine.wire.alike`), others go the way that pipelines go (:meth:`engine.core.dispatch.Core.execute_run`), the
rest goes through hiredis. What has no sum, because a real Redis wrote it, is read command by command, strictly, except
such runs. Either way every command must succeed: an error is a sign that this is not what was written, and loading ends
with the file and the place.

What a command does is :mod:`engine.shell.durability.log.commands`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hiredis

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.environment.failures import FatalError
from engine.core.formats.damage import DamagedError
from engine.shell.durability.formats.blocks import Piece, TornError, end_of_writing, pieces_from
from engine.shell.durability.log.commands import Commands
from engine.shell.observation.reporting import LOG
from engine.wire.alike import AlikeAdds
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
    """Runs the commands of one file on a core, at the time ``now_us``. The core must be replaying.

    ``relieve`` is called now and then, to make room in memory.
    """

    def __init__(self, core: Core, now_us: int, relieve: Callable[[], None] = lambda: None) -> None:
        self._core = core
        self._now_us = now_us
        self._relieve = relieve
        self._session: Session = core.open_session(now_us)
        self._alike = AlikeAdds()
        self._scanner = Scanner()
        self._commands = Commands(core, self._session, now_us)
        self._added = 0
        #: Where the last command ends, in the bytes that :meth:`run` is given: comments stand behind it.
        self.end = 0

    @property
    def commands(self) -> int:
        """How many have run."""
        return self._added + self._commands.count

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
                self._relieve()
                if piece is not None:
                    self.end = place = self._unproven(data, piece.start)
        except TornError:
            # What comes before the torn end counts.
            self._proven(data, together)
            if self._commands.in_transaction:
                raise TornError(self._commands.began) from None
            raise
        if self._commands.in_transaction:
            raise TornError(self._commands.began)

    def _gather(self, data: memoryview, place: int, together: list[Piece]) -> tuple[int, Piece | None]:
        """Add proven pieces to ``together``, up to about :data:`_TOGETHER` bytes; where they end, and the unproven
        piece that comes then, if one does.
        """
        size = 0
        for piece in pieces_from(data, place):
            if not piece.proven:
                return piece.start, piece
            together.append(piece)
            self.end = place = piece.end
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
                if not self._commands.in_transaction and at >= no_run_before:
                    run_end = self._as_run(commands, at, piece.end - end + at)
                    if run_end:
                        at = run_end
                        continue
                    no_run_before = at + _NEXT_LOOK
                at = self._parsed(commands, at, end, piece.end - end + at)

    def _as_run(self, commands: bytes, at: int, place: int) -> int:
        """Take a run of XADD, which stands at ``place`` in the file; where it ends, 0 where there is none."""
        try:
            alike = self._alike.scan(commands, at)
            if alike is not None and self._core.load_run(self._session, alike, self._now_us):
                self._added += alike.count
                return alike.end
            run = self._scanner.scan(commands, at)
            if run is None or self._core.execute_run(self._session, run, self._now_us) is None:
                return 0
        except (FatalError, Exception) as error:
            raise _unforeseen(place, b"XADD", error) from error
        self._added += run.count
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
                self._relieve()
                base += at
                window, at = bytes(data[base : base + _WINDOW]), 0
            place = base + at
            if window[at : at + 1] != b"*":
                return place
            if not self._commands.in_transaction and place >= no_run_before:
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
        try:
            self._commands.take(argv, place)
            self._core.outbox.clear()
        except DamagedError:
            raise
        except (FatalError, Exception) as error:
            raise _unforeseen(place, argv[0], error) from error


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
