"""Offset of the history up to which a replica's own log is on disk, for WAITAOF at the master."""

from __future__ import annotations

from engine.core.environment.durability import Durability


class LogOffset:
    """Position of one replica's log in its master's stream. Offsets are those of the history, in bytes."""

    def __init__(self) -> None:
        #: Positions up to which the stream was passed to the log, and which are not known to be on disk, in order. Each
        #: is (offset in the log, offset in the history).
        self._waiting: list[tuple[int, int]] = []
        #: Offset known to be on disk; -1 if there is none.
        self._on_disk = -1

    def reset(self) -> None:
        """Reset everything: the data was replaced, and the new data is not known to be on disk."""
        self._waiting.clear()
        self._on_disk = -1

    def clear(self) -> None:
        """Drop the positions that are not known to be on disk: the link is new."""
        self._waiting.clear()

    def note(self, durability: Durability, offset: int) -> None:
        """Record that the stream up to ``offset`` has been passed to the log."""
        if durability.logging and (not self._waiting or self._waiting[-1][1] != offset):
            self._waiting.append((durability.log_offset(), offset))

    def on_disk(self, durability: Durability, offset: int) -> int:
        """Return the offset up to which the stream is on disk, -1 if unknown. ``offset``: the replica's offset in
        memory.
        """
        synced = 0
        for log_offset, reached in self._waiting:
            if not durability.is_synced(log_offset):
                break
            self._on_disk = reached
            synced += 1
        del self._waiting[:synced]
        if not self._waiting and durability.is_synced(durability.log_offset()):
            self._on_disk = offset
        return self._on_disk
