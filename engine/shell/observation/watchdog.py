"""Event-loop watchdog: reports iterations that took at least ``latency-monitor-threshold``, and their cause.

An iteration serves only the clients whose commands it runs, so a long iteration delays all other clients. While the
threshold is set, code that works in the loop calls `Watchdog.note_work` afterwards, and the telemetry reports single
long commands. The first report of an iteration schedules a callback, which runs after all work that was scheduled
before, and marks the end of the iteration. An iteration that took too long becomes a LATENCY event. At most one such
iteration per second is logged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import NamedTuple

from engine.core.clients.telemetry import Telemetry
from engine.core.table.registry import called_by
from engine.shell.clock import now_us
from engine.shell.observation.log_lines import LOG

#: Maximum number of command names in the report of one iteration.
_NAMES = 3
_SECOND_US = 1_000_000


class _Piece(NamedTuple):
    """Work in an iteration: its duration, the name of its LATENCY event, and its commands or a text about the work."""

    microseconds: int = 0
    event: bytes = b""
    done: bytes | list[list[bytes]] = b""


_NOTHING = _Piece()


class Watchdog:
    """Watchdog of one event loop."""

    __slots__ = ("_began", "_left_out", "_logged_at", "_longest", "_longest_command", "_loop", "_telemetry")

    def __init__(self, telemetry: Telemetry, loop: asyncio.AbstractEventLoop) -> None:
        self._telemetry = telemetry
        self._loop = loop
        telemetry.on_latency = self._note_event
        #: Start of the current iteration's work in microseconds; 0 if no work was reported.
        self._began = 0
        self._longest = self._longest_command = _NOTHING
        self._logged_at = 0
        #: Number of long iterations since the last log line.
        self._left_out = 0

    def note_work(self, began_us: int, done: bytes | list[list[bytes]], event: bytes = b"command") -> None:
        """Report work from ``began_us`` until now. ``done``: the commands that ran, or a text about the work."""
        spent = now_us() - began_us
        self._open(began_us)
        if spent > self._longest.microseconds:
            self._longest = _Piece(spent, event, done)

    def _note_event(self, event: bytes, cause: bytes, milliseconds: int) -> None:
        """Keep an operation that telemetry has recorded as a latency event, if it is the longest of the iteration."""
        spent = milliseconds * 1000
        self._open(now_us() - spent)
        if spent > self._longest_command.microseconds:
            self._longest_command = _Piece(spent, event, cause)

    def _open(self, began_us: int) -> None:
        if not self._began:
            self._began = began_us
            self._loop.call_soon(self._end)

    def _end(self) -> None:
        now, began = now_us(), self._began
        milliseconds = (now - began) // 1000
        longest, command = self._longest, self._longest_command
        self._began = 0
        self._longest = self._longest_command = _NOTHING
        if not self._telemetry.is_latency(milliseconds):
            return
        if 2 * command.microseconds >= longest.microseconds:
            longest = command
        cause = _describe(longest.done)
        # Use the time at which the iteration began, as its long command does: samples of the same second are merged.
        self._telemetry.keep_latency(longest.event, milliseconds, began // 1000)
        if 0 <= now - self._logged_at < _SECOND_US:
            self._left_out += 1
            return
        more = f"; {self._left_out} other long iterations since the last line" if self._left_out else ""
        LOG.warning("an iteration of the event loop took %d ms: %s%s", milliseconds, cause.decode(), more)
        self._logged_at, self._left_out = now, 0


def _describe(done: bytes | list[list[bytes]]) -> bytes:
    """Describe the work in a few words; commands only by name, because their arguments may be secrets."""
    if isinstance(done, bytes):
        return done
    counts = Counter(command.full_name if (command := called_by(argv)) else b"unknown" for argv in done)
    names = [name if count == 1 else b"%d * %b" % (count, name) for name, count in counts.most_common(_NAMES)]
    return b", ".join([*names, b"..."] if len(counts) > _NAMES else names)
