"""Replay of an append-only file: its commands are run on an empty core.

Data verified by a block's checksum is processed in large pieces. Runs of similar XADDs are added in one operation
(`engine.wire.uniform_adds`), other runs of XADDs like a client's pipeline (`engine.core.dispatch.Core.execute_run`).
hiredis parses the other commands. Data without a checksum was written by Redis, or is too long for a block. Runs of
XADDs in such data are added in the same two ways, and its other commands are parsed strictly, one by one. Every command
must succeed: an error means that the file is damaged, and loading fails with an error that has the file and the offset.

`engine.shell.durability.log.commands` runs the commands.
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
from engine.shell.durability.formats.blocks import Piece, TornError, pieces_from, written_size
from engine.shell.durability.log.commands import Commands
from engine.shell.durability.log.left_out import LeftOutKeys
from engine.shell.observation.log_lines import LOG
from engine.wire.bulk import Scanner
from engine.wire.uniform_adds import UniformAdds

#: Approximate size in bytes to which blocks are joined, so that runs of XADD can continue from one block to the next.
_TOGETHER = 1 << 20
#: Number of bytes without a checksum to copy from the mapped file at a time.
_WINDOW = 4 * _TOGETHER
#: Number of bytes to parse between a search that found no run and the next search, because searching is slow.
_NEXT_SEARCH = 1 << 16
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
        for piece in pieces_from(data, offset):
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
                at = self._parsed(commands, at, end, piece.end - end + at)

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

    def _parsed(self, commands: bytes, at: int, end: int, offset: int) -> int:
        """Run ``commands[at:end]``; return ``end``. ``offset``: their offset in the file, for errors."""
        reader = hiredis.Reader(notEnoughData=_NOTHING)
        try:
            reader.feed(commands, at, end - at)
            found = list(iter(reader.gets, _NOTHING))
            for argv in found:
                b"".join(argv)
        except (hiredis.ProtocolError, TypeError):
            raise DamagedError(offset, "the checksum is right, but these are not commands") from None
        if reader.has_data() or not all(found):
            raise DamagedError(offset, "the checksum is right, but a command is incomplete")
        for argv in found:
            self._apply(argv, offset)
        return end

    def _unproven(self, data: memoryview, start: int) -> int:
        """Run commands without a checksum from ``start`` on; return where they end."""
        window = bytes(data[start : start + _WINDOW])
        base, at, no_run_before = start, 0, start
        while True:
            if at + _TOGETHER > len(window) and base + len(window) < len(data):
                self._relieve()
                base += at
                window, at = bytes(data[base : base + _WINDOW]), 0
            offset = base + at
            if window[at : at + 1] != b"*":
                return offset
            if not self._commands.in_transaction and offset >= no_run_before:
                run_end = self._as_run(window, at, offset)
                if run_end:
                    at = run_end
                    continue
                no_run_before = offset + _NEXT_SEARCH
            try:
                argv, at = parse_command(window, at, base)
            except TornError:
                # Possibly a long command, only partly in the window.
                argv, base = parse_command(data, offset)
                window, at = bytes(data[base : base + _WINDOW]), 0
            self._apply(argv, offset)

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


def parse_command(data: bytes | memoryview, at: int, base: int = 0) -> tuple[list[bytes], int]:
    """Parse the command at ``at``, strictly; return its name with the arguments, and the offset where it ends.

    ``base`` is added to offsets in errors.
    """
    count, position = _header(data, at, b"*", base)
    if count < 1:
        raise DamagedError(base + at, "a command without words")
    argv = []
    for _ in range(count):
        begin = position
        try:
            size, position = _header(data, position, b"$", base)
        except TornError:
            raise TornError(base + at) from None
        end = position + size
        if end + 2 > len(data):
            if bytes(data[end:]) != b"\r\n"[: max(len(data) - end, 0)]:
                raise DamagedError(base + begin, "the length of a word differs from its header")
            raise TornError(base + at)
        if bytes(data[end : end + 2]) != b"\r\n":
            raise DamagedError(base + begin, "the length of a word differs from its header")
        argv.append(bytes(data[position:end]))
        position = end + 2
    return argv, position


def _header(data: bytes | memoryview, at: int, mark: bytes, base: int) -> tuple[int, int]:
    line = bytes(data[at : at + 24])
    end = line.find(b"\r\n")
    digits = line[1:end] if end >= 0 else line[1:].rstrip(b"\r")
    if (line and line[:1] != mark) or (digits and (not digits.isdigit() or (digits[:1] == b"0" and digits != b"0"))):
        raise DamagedError(base + at, f"expected '{mark.decode()}' and a number")
    if end < 0:
        if len(line) == 24:
            raise DamagedError(base + at, "a number without a line end")
        raise TornError(base + at)
    if not digits:
        raise DamagedError(base + at, f"expected '{mark.decode()}' and a number")
    return int(digits), at + end + 2
