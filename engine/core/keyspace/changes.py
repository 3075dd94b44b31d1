"""State shared by the databases of one core: the time, the changes, and the notifications that they cause.

A database reads the time here, counts changes, and records their consequences: effects for the log, keys that unblock
clients, and sessions whose transaction must fail. The core sets the time before each command, and collects the
consequences after the command. The state is in plain attributes, because every command reads several of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.core.keyspace.hash import Hash
from engine.core.protocol import pace
from engine.core.protocol.replies import Steps
from engine.core.streams.stream import Stream

Table = dict[Any, Any] | list[Any]
#: Later than any time.
NEVER = 1 << 63
#: (database, command) per effect. A command is a list of words, or the encoded bytes of one or more commands.
Effects = list[tuple[int, list[bytes] | bytes]]
#: Called with the class of a keyspace event (a letter of notify-keyspace-events), its name, the key and the database.
OnEvent = Callable[[str, bytes, bytes, int], None]


class Watcher(Protocol):
    """A client that watches keys (WATCH)."""

    #: Pairs of database and key.
    watching: set[tuple[int, bytes]]
    #: Whether a watched key has changed.
    dirty_exec: bool


@dataclass(slots=True, eq=False, repr=False)
class Changes:
    """The changes of one core."""

    #: Current time in milliseconds since the epoch.
    now: int = 0
    #: Current time in microseconds since the epoch.
    now_us: int = 0
    #: Number of changes since the last snapshot.
    dirty: int = 0
    #: Effects recorded while ``recording``. The consumer of effects clears this list, but never replaces it.
    effects: Effects = field(default_factory=list)
    #: Whether effects are recorded; maintained by ``record_for`` and ``hold_recording``.
    recording: bool = False
    _recorders: set[str] = field(default_factory=set)
    _recording_held: bool = False
    #: Whether effects from a log or a master are being run. Keys do not expire then, because these effects include
    #: the deletion of expired keys.
    replaying: bool = False
    #: The divided commands that hold keys; see ``engine.core.environment.divided_commands``.
    divided: list[Steps] = field(default_factory=list)
    #: Large unused tables, which ``free`` frees in pieces.
    discarded: list[Table] = field(default_factory=list)
    #: Signalled keys for which clients wait, in order -> whether the value has been replaced.
    ready: dict[tuple[int, bytes], bool] = field(default_factory=dict)
    #: (database, key) -> its watchers.
    watchers: dict[tuple[int, bytes], set[Watcher]] = field(default_factory=dict)
    #: Called for keyspace events; None if events are disabled.
    on_event: OnEvent | None = None
    #: Until this time (milliseconds since the epoch), due keys are hidden but not removed. ``hold_expiry`` sets it.
    expiry_held_until: int = 0
    _expiry_holders: dict[str, int] = field(default_factory=dict)
    #: Time before which no key expires, in milliseconds since the epoch.
    next_expiry: int = NEVER
    #: Number of expired keys.
    expired_keys: int = 0

    def set_time(self, now_us: int) -> None:
        """Set the current time, in microseconds since the epoch."""
        self.now_us = now_us
        self.now = now_us // 1000

    def is_held(self, key: bytes) -> bool:
        """Return whether a divided command holds the key, so that the key may not expire."""
        return any(key in steps.keys for steps in self.divided)

    def record_for(self, who: str, wanted: bool) -> None:
        """Start or stop recording effects for ``who`` (the log, the replicas), independently of other recorders."""
        if wanted:
            self._recorders.add(who)
        else:
            self._recorders.discard(who)
        self.recording = bool(self._recorders) and not self._recording_held

    def hold_recording(self, held: bool) -> None:
        """Suspend recording for all recorders while ``held``: loading data is not an effect of a command."""
        self._recording_held = held
        self.recording = bool(self._recorders) and not held

    def hold_expiry(self, who: str, until: int) -> None:
        """Hide due keys instead of removing them, until this time in milliseconds since the epoch.

        ``who`` names the holder: a pause, or a master that will send the deletions. An ``until`` of 0 ends its hold.
        """
        self._expiry_holders[who] = until
        self.expiry_held_until = max(self._expiry_holders.values())
        # Makes the core compute the time of the next expiry again.
        self.next_expiry = 0

    def record(self, db: int, argv: list[bytes]) -> None:
        """Add an effect, if effects are recorded."""
        if self.recording:
            self.effects.append((db, argv))

    def seal_effects(self, first: int) -> None:
        """Combine the effects from index ``first`` on (at least two) into one transaction."""
        effects = self.effects
        effects.insert(first, (effects[first][0], [b"MULTI"]))
        effects.append((effects[-1][0], [b"EXEC"]))

    def seal_as_one(self, first: int) -> None:
        """Combine the effects as ``seal_effects`` does, and merge transactions among them into the new transaction."""
        effects = self.effects
        if len(effects) - first > 1:
            effects[first:] = [effect for effect in effects[first:] if effect[1] not in ([b"MULTI"], [b"EXEC"])]
            self.seal_effects(first)

    def discard(self, *tables: Table) -> bool:
        """Queue unused tables for ``free`` if they are large in total; return whether they were queued.

        Tables that are not queued are freed when the caller drops its references. While a log is replayed, tables of
        any size are freed in this way.
        """
        if self.replaying or sum(map(len, tables)) <= pace.FREED:
            return False
        self.discarded += tables
        return True

    def discard_value(self, value: Any) -> None:
        """Free the unused value of a key, in pieces if it is large."""
        if isinstance(value, (Hash, Stream)):
            self.discard(*value.tables())

    def free(self, most: int | None = None) -> bool:
        """Free up to ``most`` elements (`pace.FREED` if None) of discarded tables; return whether any elements remain.

        Large values among the elements become discarded tables themselves, and are freed by later calls.
        """
        left = pace.FREED if most is None else most
        while self.discarded and left > 0:
            table = self.discarded[-1]
            count = min(left, len(table))
            left -= count
            if isinstance(table, dict):
                values = [table.popitem()[1] for _ in range(count)]
            else:
                values = table[len(table) - count :]
                del table[len(table) - count :]
            if not table:
                self.discarded.pop()
            for value in values:
                self.discard_value(value)
        return bool(self.discarded)

    def notify(self, kind: str, event: bytes, key: bytes, db: int) -> None:
        """Notify subscribers of a keyspace event. ``kind`` is its letter in notify-keyspace-events."""
        if self.on_event is not None:
            self.on_event(kind, event, key, db)

    def watch(self, watcher: Watcher, db: int, key: bytes) -> None:
        """Make the transaction of ``watcher`` fail if the key changes."""
        watcher.watching.add((db, key))
        self.watchers.setdefault((db, key), set()).add(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Stop watching all keys of ``watcher``."""
        for pair in watcher.watching:
            watchers = self.watchers.get(pair)
            if watchers is not None:
                watchers.discard(watcher)
                if not watchers:
                    del self.watchers[pair]
        watcher.watching.clear()
        watcher.dirty_exec = False
