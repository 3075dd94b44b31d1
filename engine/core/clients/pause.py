"""What holds commands back, until when, and which commands: CLIENT PAUSE, and what else pauses clients."""

from __future__ import annotations

#: Who pauses clients with CLIENT PAUSE.
_CLIENT = "client"


class Pause:
    """The pauses of one core, each of which has an owner. Times are milliseconds since the epoch.

    The shell holds back all commands until ``all_until``, and those that write until ``until``.
    """

    __slots__ = ("_owners", "all_until", "until")

    def __init__(self) -> None:
        #: 0: nothing is held back.
        self.until = 0
        self.all_until = 0
        self._owners: dict[str, tuple[int, bool]] = {}

    def begin(self, now: int, until: int, *, holds_all: bool, owner: str = _CLIENT) -> int:
        """Hold commands back; until when this owner does. A pause within a pause of its owner makes it longer and
        stricter, never the contrary.
        """
        before, held_all = self._owners.get(owner, (0, False))
        until = max(before, until)
        self._owners[owner] = until, holds_all or (held_all and before > now)
        self._sum_up()
        return until

    def end(self, owner: str = _CLIENT) -> None:
        """Hold nothing back any more for this owner."""
        self._owners.pop(owner, None)
        self._sum_up()

    def clear(self) -> None:
        """All pauses are over."""
        self._owners.clear()
        self._sum_up()

    def next_end(self, now: int) -> int:
        """When a pause ends next; 0: there is none."""
        return min((until for until, _ in self._owners.values() if until > now), default=0)

    def _sum_up(self) -> None:
        self.until = max((until for until, _ in self._owners.values()), default=0)
        self.all_until = max((until for until, holds_all in self._owners.values() if holds_all), default=0)
