"""What the databases of one core share: the time, what has changed, and who must hear of it.

A database reads the time here, counts changes, and leaves what others have to act on: effects for the log, keys that
somebody waits for, sessions whose transaction must fail. The core sets the time before each command and collects the
rest after it. The attributes are plain because every command reads several of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from engine.core.keyspace.elements import Elements

#: Tables of more elements are freed in pieces of so many: each takes a few milliseconds at the most.
_LARGE = 10_000
Table = dict[Any, Any] | list[Any] | deque[Any]
#: The types of values that are freed piece by piece.
_VALUES = (Elements, deque)
#: Later than any time.
NEVER = 1 << 63
#: (database, command) of what happened: a command as words, or as bytes of one or more commands that are encoded.
Effects = list[tuple[int, list[bytes] | bytes]]
#: Called with the class of a keyspace event (a letter of notify-keyspace-events), its name, the key and the database.
OnEvent = Callable[[str, bytes, bytes, int], None]


class Watcher(Protocol):
    """Who watches keys (WATCH). ``watching`` maps (database, key) to whether the key had expired by then, undeleted."""

    watching: dict[tuple[int, bytes], bool]
    #: A watched key has changed.
    dirty_exec: bool


class Changes:
    """The changes of one core. ``pick(n)`` draws a number in 0 .. n-1: the core's only source of chance."""

    __slots__ = (
        "_expiry_holders",
        "_recorders",
        "_recording_held",
        "dirty",
        "discarded",
        "effects",
        "expired_fields",
        "expired_keys",
        "expires_actively",
        "expiry_held_until",
        "next_expiry",
        "now",
        "now_us",
        "on_event",
        "pick",
        "ready",
        "recording",
        "replaying",
        "watchers",
    )

    def __init__(self, pick: Callable[[int], int]) -> None:
        self.pick = pick
        #: The present time since the epoch, in milliseconds and in microseconds.
        self.now = 0
        self.now_us = 0
        #: Changes since the last snapshot.
        self.dirty = 0
        #: What happened, if ``recording``. The list stays the same object; whoever takes the effects clears it.
        self.effects: Effects = []
        #: Somebody wants effects; :meth:`record_for` says who, and keeps this true.
        self.recording = False
        self._recorders: set[str] = set()
        self._recording_held = False
        #: Effects from a log are being run: no key expires by itself, because the log says when it went.
        self.replaying = False
        #: Large tables that nobody uses any more; :meth:`free` takes them apart.
        self.discarded: list[Table] = []
        #: Keys that somebody waits for and that were signalled, in order; whether what is there is another value.
        self.ready: dict[tuple[int, bytes], bool] = {}
        #: (database, key) -> who watches it.
        self.watchers: dict[tuple[int, bytes], set[Watcher]] = {}
        #: Called for keyspace events; None while nobody wants any.
        self.on_event: OnEvent | None = None
        #: Keys are removed when their time has come, and not only when somebody asks for them.
        self.expires_actively = True
        #: Until then (milliseconds) keys whose time has come are unseen, but stay; :meth:`hold_expiry` keeps it.
        self.expiry_held_until = 0
        self._expiry_holders: dict[str, int] = {}
        #: No key expires before this time (milliseconds since the epoch).
        self.next_expiry = NEVER
        #: How many keys have expired.
        self.expired_keys = 0
        #: How many fields of hashes have expired.
        self.expired_fields = 0

    def set_time(self, now_us: int) -> None:
        """Set the time of what comes next, in microseconds since the epoch."""
        self.now_us = now_us
        self.now = now_us // 1000

    def record_for(self, who: str, wanted: bool) -> None:
        """Record effects for ``who`` (the log, the replicas) from now on, or no more; others get theirs as before."""
        if wanted:
            self._recorders.add(who)
        else:
            self._recorders.discard(who)
        self.recording = bool(self._recorders) and not self._recording_held

    def hold_recording(self, held: bool) -> None:
        """Record nothing for anybody while ``held``: what happens is no effect of a command, but data being loaded."""
        self._recording_held = held
        self.recording = bool(self._recorders) and not held

    def hold_expiry(self, who: str, until: int) -> None:
        """Let keys whose time has come stay, unseen, until then (milliseconds) for ``who`` (a pause, a master that will
        say when they go); 0: no longer.
        """
        self._expiry_holders[who] = until
        self.expiry_held_until = max(self._expiry_holders.values())
        # Whoever sets the timer looks anew.
        self.next_expiry = 0

    def record(self, db: int, argv: list[bytes]) -> None:
        """Add an effect, if effects are recorded."""
        if self.recording:
            self.effects.append((db, argv))

    def seal_effects(self, first: int) -> None:
        """Make the effects from index ``first`` on one transaction. (Called where there are several.)"""
        effects = self.effects
        effects.insert(first, (effects[first][0], [b"MULTI"]))
        effects.append((effects[-1][0], [b"EXEC"]))

    def seal_as_one(self, first: int) -> None:
        """As :meth:`seal_effects`, where there may be transactions among them: all become one."""
        effects = self.effects
        if len(effects) - first > 1:
            effects[first:] = [effect for effect in effects[first:] if effect[1] not in ([b"MULTI"], [b"EXEC"])]
            self.seal_effects(first)

    def discard(self, *tables: Table) -> bool:
        """Free tables that nobody uses any more: now where they are small together, else in pieces (:meth:`free`).

        Returns whether they are freed in pieces.
        """
        if self.replaying or sum(map(len, tables)) <= _LARGE:
            return False
        self.discarded += tables
        return True

    def discard_value(self, value: Any) -> None:
        """Free the value of a key, which nobody uses any more: by pieces, if it is large."""
        # (With a tenth of that all tables of a value have together fewer elements.)
        if isinstance(value, deque):
            self.discard(value)
        elif isinstance(value, Elements) and len(value) > _LARGE // 10 and not value.readings:
            self.discard(*value.tables())

    def free(self, most: int = _LARGE) -> bool:
        """Free up to ``most`` elements of discarded tables; whether any are left. Large values in them come later."""
        while self.discarded and most > 0:
            table = self.discarded[-1]
            count = min(most, len(table))
            most -= count
            if isinstance(table, dict):
                values = [table.popitem()[1] for _ in range(count)]
                if not table:
                    self.discarded.pop()
                for value in values:
                    if isinstance(value, _VALUES):
                        self.discard_value(value)
                continue
            if isinstance(table, deque):
                for _ in range(count):
                    table.pop()
            else:
                del table[len(table) - count :]
            if not table:
                self.discarded.pop()
        return bool(self.discarded)

    def notify(self, kind: str, event: bytes, key: bytes, db: int) -> None:
        """Tell subscribers of a keyspace event. ``kind`` is its letter in notify-keyspace-events."""
        if self.on_event is not None:
            self.on_event(kind, event, key, db)

    def watch(self, watcher: Watcher, db: int, key: bytes, *, expired: bool) -> None:
        """Tell ``watcher`` when the key changes. ``expired``: its time has come, but it is still there."""
        pair = db, key
        if pair not in watcher.watching:
            watcher.watching[pair] = expired
            self.watchers.setdefault(pair, set()).add(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Forget what ``watcher`` watches."""
        for pair in watcher.watching:
            watchers = self.watchers.get(pair)
            if watchers is not None:
                watchers.discard(watcher)
                if not watchers:
                    del self.watchers[pair]
        watcher.watching.clear()
        watcher.dirty_exec = False
