"""Movable server clock: an offset that the engine adds to the system's time, from a file that a test writes.

Idle times, claims, expiry and retention depend on the server's clock, so a test can move it instead of sleeping.
"""

from __future__ import annotations

from pathlib import Path

#: Environment variable that names the file for the engine (`engine.shell.clock`).
VARIABLE = "PYSTREAMS_ENGINE_CLOCK"

_BYTES = 8


class Clock:
    """The clock of one engine. It only moves forward, like the IDs of entries."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._offset_us = 0
        self._write()

    @property
    def offset(self) -> float:
        """Seconds that the server is ahead of this machine."""
        return self._offset_us / 1e6

    def advance(self, seconds: float) -> None:
        """Move the server's clock forward."""
        if seconds < 0:
            raise ValueError(f"a server's clock cannot go back ({seconds:g} seconds)")
        self._offset_us += round(seconds * 1e6)
        self._write()

    def _write(self) -> None:
        # Write in place, because the engine has mapped the file.
        with self.file.open("r+b" if self.file.exists() else "wb") as file:
            file.write(self._offset_us.to_bytes(_BYTES, "little", signed=True))
