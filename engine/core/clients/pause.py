"""Pauses that hold commands back until a given time: CLIENT PAUSE, and those of failovers and shutdowns."""

from __future__ import annotations

#: The owner of CLIENT PAUSE.
_CLIENT = "client"


class Pause:
    """The pauses of one core, each with an owner. Times are milliseconds since the epoch.

    The shell holds back all commands until ``all_until``, and commands with replicated effects until ``until``.
    """

    __slots__ = ("_owners", "all_until", "until")

    def __init__(self) -> None:
        #: Latest end of a pause; 0 if there is no pause.
        self.until = 0
        #: Latest end of a pause of all commands; 0 if there is no such pause.
        self.all_until = 0
        self._owners: dict[str, tuple[int, bool]] = {}

    def start(self, now: int, until: int, *, holds_all: bool, owner: str = _CLIENT) -> int:
        """Start or extend this owner's pause; return its end.

        A new call cannot shorten a pause, and a pause of all commands keeps holding all of them until its end.
        """
        before, held_all = self._owners.get(owner, (0, False))
        until = max(before, until)
        self._owners[owner] = until, holds_all or (held_all and before > now)
        self._sum_up()
        return until

    def end(self, owner: str = _CLIENT) -> None:
        """End this owner's pause."""
        self._owners.pop(owner, None)
        self._sum_up()

    def clear(self) -> None:
        """End all pauses."""
        self._owners.clear()
        self._sum_up()

    def next_end(self, now: int) -> int:
        """Return the end of the pause that ends next; 0 if there is no pause."""
        return min((until for until, _ in self._owners.values() if until > now), default=0)

    def _sum_up(self) -> None:
        self.until = max((until for until, _ in self._owners.values()), default=0)
        self.all_until = max((until for until, holds_all in self._owners.values() if holds_all), default=0)
