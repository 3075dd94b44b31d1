"""CLIENT PAUSE: until when commands are held back, and which."""

from __future__ import annotations


class Pause:
    """The pause of one core. The shell holds commands back until ``until``."""

    __slots__ = ("holds_all", "until")

    def __init__(self) -> None:
        #: Milliseconds since the epoch; 0: nothing is held back.
        self.until = 0
        #: Whether all commands are held back, or only those that write.
        self.holds_all = False

    def begin(self, now: int, until: int, *, holds_all: bool) -> None:
        """Hold commands back. A pause within a pause makes it longer and stricter, never the contrary."""
        self.holds_all = holds_all or (self.holds_all and self.until > now)
        self.until = max(self.until, until)

    def end(self) -> None:
        """Hold nothing back any more."""
        self.until = 0
