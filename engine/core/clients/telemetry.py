"""How long commands took: totals and a histogram for each, the slow log, events of latency.

Times come in as arguments, in nanoseconds; the core asks a stopwatch that the shell gives it. ``threshold_ns`` is the
one number that is compared for every command; whatever reaches it is looked at here. A histogram's bucket n counts what
took less than 2**n nanoseconds, and at least half of that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.core.clients.session import Session
from engine.core.protocol.replies import CommandError
from engine.core.table.registry import Command
from engine.settings.config import Config
from engine.text.shown import shortened, without_secrets

#: Longer than anything takes.
NEVER_NS = 1 << 62
_BUCKETS = 64
#: So many samples of a kind of event are kept.
_SAMPLES = 160
#: Below this, the slow log wants to see each command, those that come in a run too.
_EACH_NS = 10_000


class Stat:
    """One command's counts. ``failed`` ran and answered with an error, ``rejected`` never ran."""

    __slots__ = ("buckets", "failed", "ns", "rejected")

    def __init__(self) -> None:
        self.buckets = [0] * _BUCKETS
        self.ns = 0
        self.failed = 0
        self.rejected = 0

    @property
    def calls(self) -> int:
        """How often it ran."""
        return sum(self.buckets)

    def add_run(self, count: int, ns: int) -> None:
        """``count`` calls took so long together."""
        self.ns += ns
        self.buckets[(ns // count).bit_length()] += count

    def distribution(self) -> list[tuple[int, int]]:
        """(microseconds, how many calls took at most so long), where the number changes."""
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

    def percentile(self, percent: float) -> float:
        """Microseconds within which so many per cent of the calls were done, read off the histogram."""
        wanted = self.calls * percent / 100
        seen = 0
        for bucket, count in enumerate(self.buckets):
            if count and seen + count >= wanted:
                low, high = (1 << bucket) / 2, float(1 << bucket)
                return (low + (high - low) * max(wanted - seen, 0) / count) / 1000
            seen += count
        return 0.0


def _edge_us(bucket: int) -> int:
    """The upper edge of a bucket as tools know it: 1 2 4 8 16 33 66 132 ..."""
    power = max(bucket - 10, 0)
    return 1 << power if power < 5 else 33 << (power - 5)


@dataclass(frozen=True, slots=True)
class Slow:
    """An entry of the slow log; ``at`` in seconds since the epoch."""

    number: int
    at: int
    microseconds: int
    words: list[bytes]
    address: bytes
    name: bytes


@dataclass(slots=True)
class Event:
    """A kind of latency event: samples of (second, milliseconds), the newest last, and the longest ever."""

    longest: int = 0
    #: What was being done for the longest time.
    worst: bytes = b""
    samples: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_SAMPLES))

    def add(self, second: int, milliseconds: int, what: bytes) -> None:
        """One more; of several in one second the longest counts."""
        if milliseconds > self.longest:
            self.longest, self.worst = milliseconds, what
        if self.samples and self.samples[-1][0] == second:
            milliseconds = max(milliseconds, self.samples.pop()[1])
        self.samples.append((second, milliseconds))


class Telemetry:
    """The measurements of one core's commands, and what is kept of the slow ones."""

    __slots__ = (
        "_all",
        "_config",
        "_keep",
        "_next_number",
        "_slow_us",
        "commands",
        "errors",
        "events",
        "latency_ms",
        "measured_ns",
        "on_latency",
        "slow_log",
        "stats",
        "stopwatch",
        "threshold_ns",
        "wants_each",
    )

    def __init__(self, config: Config) -> None:
        self._config = config
        #: How many commands have run.
        self.commands = 0
        #: How many error replies there were, by their codes.
        self.errors: dict[bytes, int] = {}
        #: Nanoseconds that go by, for measuring how long commands take: the shell's clock; and what it said when the
        #: last command ended, or when the shell began to run commands.
        self.stopwatch: Callable[[], int] = int
        self.measured_ns = 0
        self.stats: dict[bytes, Stat] = {}
        self.slow_log: deque[Slow] = deque()
        self.events: dict[bytes, Event] = {}
        #: latency-monitor-threshold, in milliseconds; 0: nobody wants to know what takes long.
        self.latency_ms = 0
        #: Told of each latency event: its kind, what was done, and the milliseconds that this took.
        self.on_latency: Callable[[bytes, bytes, int], None] = lambda *_: None
        #: What takes so long is to be reported by :meth:`note`.
        self.threshold_ns = NEVER_NS
        #: Whether no command may be lost among many that are done at once.
        self.wants_each = False
        self._next_number = 0
        self._all = False
        for name in ("slowlog-log-slower-than", "slowlog-max-len", "latency-monitor-threshold"):
            config.on_change(name, self._follow)
        self._follow()

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
        """Have every command reported, whatever it took: somebody monitors them."""
        self._all = wanted
        self._follow()

    def stat(self, name: bytes) -> Stat:
        """A command's counts, made if there are none yet."""
        found = self.stats.get(name)
        if found is None:
            found = self.stats[name] = Stat()
        return found

    def count_error(self, error: CommandError) -> None:
        """Count an error reply by its code."""
        if error.counted:
            return
        code = error.text.partition(b" ")[0]
        self.errors[code] = self.errors.get(code, 0) + 1

    def reset(self) -> None:
        """Forget all counts; the slow log and the events stay."""
        self.stats.clear()
        self.errors.clear()
        self.commands = 0

    def note(self, session: Session, command: Command, argv: list[bytes], spent_ns: int, now_ms: int) -> None:
        """A command took at least :attr:`threshold_ns`."""
        microseconds = spent_ns // 1000
        self.note_slow(session, command, argv, microseconds, now_ms)
        event = b"fast-command" if "fast" in command.flags else b"command"
        self.note_latency(event, command.full_name, microseconds // 1000, now_ms)

    def note_slow(self, session: Session, command: Command, argv: list[bytes], microseconds: int, now_ms: int) -> None:
        """Put a command into the slow log, if it took as long as slowlog-log-slower-than."""
        if 0 <= self._slow_us <= microseconds and self._keep and "skip_slowlog" not in command.flags:
            words = shortened(without_secrets(argv))
            entry = Slow(self._next_number, now_ms // 1000, microseconds, words, session.addr, session.name)
            self._next_number += 1
            self.slow_log.appendleft(entry)
            self._shorten()

    def is_latency(self, milliseconds: int) -> bool:
        """Whether so long is as long as latency-monitor-threshold says."""
        return 0 < self.latency_ms <= milliseconds

    def note_latency(self, event: bytes, what: bytes, milliseconds: int, now_ms: int) -> None:
        """``what``, an event of that kind, took so long: keep that, and tell of it, if it is long enough."""
        if self.is_latency(milliseconds):
            self.keep_latency(event, what, milliseconds, now_ms)
            self.on_latency(event, what, milliseconds)

    def keep_latency(self, event: bytes, what: bytes, milliseconds: int, now_ms: int) -> None:
        """Keep an event for LATENCY."""
        self.events.setdefault(event, Event()).add(now_ms // 1000, milliseconds, what)

    def _shorten(self) -> None:
        while len(self.slow_log) > self._keep:
            self.slow_log.pop()
