"""Command timings: totals and a histogram per command, the slow log, and latency events.

Durations are passed in nanoseconds: the core reads a stopwatch that the shell supplies. Only commands that take at
least ``threshold_ns`` are passed to ``note``. For all others, only the counters are updated. A histogram's bucket n
counts durations from 2**(n-1) to below 2**n nanoseconds.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass

from engine.core.clients.session import Session
from engine.core.protocol.replies import CommandError
from engine.core.table.registry import Command
from engine.settings.config import Config
from engine.text.command_lines import shortened, without_secrets

#: Longer than any duration.
NEVER_NS = 1 << 62
_BUCKETS = 64
#: If ``threshold_ns`` is below this number, each command of a run of XADDs is measured separately. Otherwise, the run's
#: duration is divided by its number of commands.
_EACH_NS = 10_000


class Stat:
    """One command's counters. ``failed``: calls that returned an error, ``rejected``: calls that were not run."""

    __slots__ = ("buckets", "failed", "ns", "rejected")

    def __init__(self) -> None:
        self.buckets = [0] * _BUCKETS
        self.ns = 0
        self.failed = 0
        self.rejected = 0

    @property
    def calls(self) -> int:
        """Number of calls."""
        return sum(self.buckets)

    def add_run(self, count: int, ns: int) -> None:
        """Add ``count`` calls that took ``ns`` nanoseconds in total."""
        self.ns += ns
        self.buckets[(ns // count).bit_length()] += count

    def distribution(self) -> list[tuple[int, int]]:
        """Return the cumulative distribution: (microseconds, number of calls that took at most this time) pairs."""
        found: list[tuple[int, int]] = []
        total = 0
        for bucket, count in enumerate(self.buckets):
            if not count:
                continue
            total += count
            edge = _edge_us(bucket)
            if found and found[-1][0] == edge:
                found.pop()
            found.append((edge, total))
        return found


def _edge_us(bucket: int) -> int:
    """Return the upper edge of a bucket in microseconds, as reported to tools: 1 2 4 8 16 33 66 132 ..."""
    power = max(bucket - 10, 0)
    return 1 << power if power < 5 else 33 << (power - 5)


@dataclass(frozen=True, slots=True)
class Slow:
    """A slow log entry; ``at`` is in seconds since the epoch."""

    number: int
    at: int
    microseconds: int
    words: list[bytes]
    address: bytes
    name: bytes


@dataclass(slots=True)
class Event:
    """One kind of latency event: the second of its latest sample, this sample and the longest one in milliseconds."""

    second: int = 0
    latest: int = 0
    longest: int = 0

    def add(self, second: int, milliseconds: int) -> None:
        """Add a sample. If the second already has one, the longer of the two is kept."""
        self.latest = max(milliseconds, self.latest) if second == self.second else milliseconds
        self.second = second
        self.longest = max(self.longest, milliseconds)


class Telemetry:
    """The measurements of one core's commands, and its slow log."""

    def __init__(self, config: Config) -> None:
        self._config = config
        #: Number of error replies.
        self.error_replies = 0
        #: Number of error replies by code.
        self.errors: dict[bytes, int] = {}
        #: The shell's clock in nanoseconds since the epoch, which can be set back. ``measured_ns`` is the clock's time
        #: when the last command ended, or when the shell started the current batch of commands.
        self.stopwatch: Callable[[], int] = int
        self.measured_ns = 0
        #: Counters of each command by its full name, created on first use.
        self.stats: defaultdict[bytes, Stat] = defaultdict(Stat)
        self.slow_log: deque[Slow] = deque()
        self.events: dict[bytes, Event] = {}
        #: latency-monitor-threshold in milliseconds; 0: disabled.
        self.latency_ms = 0
        #: Called for each latency event with its kind, its cause and its milliseconds.
        self.on_latency: Callable[[bytes, bytes, int], None] = lambda *_: None
        #: A command that took at least this many nanoseconds must be reported with ``note``.
        self.threshold_ns = NEVER_NS
        #: Whether each command must be measured separately, even in a run of XADDs.
        self.wants_each = False
        self._next_number = 0
        self._all = False
        for name in ("slowlog-log-slower-than", "slowlog-max-len", "latency-monitor-threshold"):
            config.on_change(name, self._follow)
        self._follow()

    @property
    def commands(self) -> int:
        """Number of commands run."""
        return sum(stat.calls for stat in self.stats.values())

    def _follow(self) -> None:
        self._slow_us = self._config.integer("slowlog-log-slower-than")
        self.latency_ms = self._config.integer("latency-monitor-threshold")
        self._keep = self._config.integer("slowlog-max-len")
        self._shorten()
        slow = self._slow_us * 1000 if self._slow_us >= 0 else NEVER_NS
        self.threshold_ns = min(slow, self.latency_ms * 1_000_000 or NEVER_NS)
        if self._all:
            self.threshold_ns = -NEVER_NS
        self.wants_each = self.threshold_ns < _EACH_NS

    def see_all(self, *, wanted: bool) -> None:
        """Start or stop reporting every command, regardless of duration (for MONITOR)."""
        self._all = wanted
        self._follow()

    def count_error(self, error: CommandError) -> None:
        """Count an error reply by its code. A text of one word has the code ERR."""
        code, space, _ = error.text.partition(b" ")
        if not space:
            code = b"ERR"
        self.error_replies += 1
        self.errors[code] = self.errors.get(code, 0) + 1

    def reset(self) -> None:
        """Reset all counters, but not the slow log and the events."""
        self.stats.clear()
        self.error_replies = 0
        self.errors.clear()

    def note(self, session: Session, command: Command, argv: list[bytes], spent_ns: int, now_ms: int) -> None:
        """Add a command that took at least ``threshold_ns`` to the slow log and the latency events it qualifies for."""
        microseconds = spent_ns // 1000
        self.note_slow(session, command, argv, microseconds, now_ms)
        event = b"fast-command" if "fast" in command.flags else b"command"
        self.note_latency(event, command.full_name, microseconds // 1000, now_ms)

    def note_slow(self, session: Session, command: Command, argv: list[bytes], microseconds: int, now_ms: int) -> None:
        """Add a command that took at least slowlog-log-slower-than to the slow log, unless its flags exclude it."""
        if 0 <= self._slow_us <= microseconds and self._keep and "skip_slowlog" not in command.flags:
            words = shortened(without_secrets(argv))
            entry = Slow(self._next_number, now_ms // 1000, microseconds, words, session.addr, session.name)
            self._next_number += 1
            self.slow_log.appendleft(entry)
            self._shorten()

    def is_latency(self, milliseconds: int) -> bool:
        """Return whether a duration reaches latency-monitor-threshold."""
        return 0 < self.latency_ms <= milliseconds

    def note_latency(self, event: bytes, cause: bytes, milliseconds: int, now_ms: int) -> None:
        """Record and report a latency event caused by ``cause``, if it reaches latency-monitor-threshold."""
        if self.is_latency(milliseconds):
            self.keep_latency(event, milliseconds, now_ms)
            self.on_latency(event, cause, milliseconds)

    def keep_latency(self, event: bytes, milliseconds: int, now_ms: int) -> None:
        """Record a latency event for LATENCY, regardless of its duration."""
        self.events.setdefault(event, Event()).add(now_ms // 1000, milliseconds)

    def _shorten(self) -> None:
        while len(self.slow_log) > self._keep:
            self.slow_log.pop()
