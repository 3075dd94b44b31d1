"""Up to which offset of the history a replica's own log is on the disk, for WAITAOF at the master."""

from __future__ import annotations

from engine.core.environment.durability import Durability


class Logged:
    """What one replica's log has of its master's stream. Offsets are those of the history, in bytes."""

    def __init__(self) -> None:
        #: What was handed to the log and is not known to be on the disk: (place in the log, offset), in order.
        self._waiting: list[tuple[int, int]] = []
        #: -1: nothing.
        self._on_disk = -1

    def forget(self) -> None:
        """The data are others from now on: nothing of them is on the disk, as far as is known."""
        self._waiting.clear()
        self._on_disk = -1

    def clear(self) -> None:
        """The link is a new one: what was handed over before it counts no more."""
        self._waiting.clear()

    def note(self, durability: Durability, offset: int) -> None:
        """What the master did up to ``offset`` has been handed to the log."""
        if durability.logging and (not self._waiting or self._waiting[-1][1] != offset):
            self._waiting.append((durability.log_offset(), offset))

    def on_disk(self, durability: Durability, offset: int) -> int:
        """Up to where the log is on the disk, where the replica is at ``offset``; -1: nothing is."""
        synced = 0
        for place, reached in self._waiting:
            if not durability.is_synced(place):
                break
            self._on_disk = reached
            synced += 1
        del self._waiting[:synced]
        if not self._waiting and durability.is_synced(durability.log_offset()):
            self._on_disk = offset
        return self._on_disk
