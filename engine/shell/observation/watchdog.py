"""The watchdog of the event loop: says which iterations took as long as ``latency-monitor-threshold``, and why.

While an iteration lasts no client is served but those whose commands it runs. Whoever works in the loop tells the
watchdog afterwards (:meth:`Watchdog.worked`), and only while the threshold is set; single commands that are long are
told by the telemetry. An iteration ends for the watchdog with the callback that it schedules when it first hears of
work: that comes behind everything else that was received. An iteration that took too long is an event of LATENCY, and a
line in the log, of which there is one in a second at the most.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import NamedTuple

from engine.core.clients.telemetry import Telemetry
from engine.core.table.registry import called_by
from engine.shell.clock import now_us
from engine.shell.observation.reporting import LOG

#: So many names of commands are told of an iteration that ran many of them.
_NAMES = 3
_SECOND_US = 1_000_000


class _Piece(NamedTuple):
    """A part of an iteration: how long it took, its kind of event, and its commands, or what else was done."""

    microseconds: int = 0
    event: bytes = b""
    done: bytes | list[list[bytes]] = b""


_NOTHING = _Piece()


class Watchdog:
    """One event loop's."""

    __slots__ = ("_began", "_left_out", "_logged_at", "_longest", "_longest_command", "_loop", "_telemetry")

    def __init__(self, telemetry: Telemetry, loop: asyncio.AbstractEventLoop) -> None:
        self._telemetry = telemetry
        self._loop = loop
        telemetry.on_latency = self._saw
        #: When the present iteration began to work, in microseconds; 0: nothing was heard of it.
        self._began = 0
        self._longest = self._longest_command = _NOTHING
        self._logged_at = 0
        #: Long iterations since the last line in the log.
        self._left_out = 0

    def worked(self, began_us: int, done: bytes | list[list[bytes]], event: bytes = b"command") -> None:
        """Somebody worked from ``began_us`` until now: he ran these commands, or did something else."""
        spent = now_us() - began_us
        self._open(began_us)
        if spent > self._longest.microseconds:
            self._longest = _Piece(spent, event, done)

    def _saw(self, event: bytes, what: bytes, milliseconds: int) -> None:
        """Something that is an event by itself has just ended."""
        spent = milliseconds * 1000
        self._open(now_us() - spent)
        if spent > self._longest_command.microseconds:
            self._longest_command = _Piece(spent, event, what)

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
        what = _named(longest.done)
        # (Its begin is the time that a command of it is kept with: both are one event.)
        self._telemetry.keep_latency(longest.event, what, milliseconds, began // 1000)
        if 0 <= now - self._logged_at < _SECOND_US:
            self._left_out += 1
            return
        more = f"; {self._left_out} others since the last line" if self._left_out else ""
        LOG.warning("an iteration of the event loop took %d ms: %s%s", milliseconds, what.decode(), more)
        self._logged_at, self._left_out = now, 0


def _named(done: bytes | list[list[bytes]]) -> bytes:
    """What was done, in a few words; commands by their names alone, because their arguments may be secrets."""
    if isinstance(done, bytes):
        return done
    counts = Counter(command.full_name if (command := called_by(argv)) else b"unknown" for argv in done)
    names = [name if count == 1 else b"%d * %b" % (count, name) for name, count in counts.most_common(_NAMES)]
    return b", ".join([*names, b"..."] if len(counts) > _NAMES else names)
