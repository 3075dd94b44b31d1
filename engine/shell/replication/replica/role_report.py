"""Report of a replica about itself and its master: ROLE, INFO replication, and INFO persistence during loading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.core.protocol.replies import Reply
from engine.settings.config import Config
from engine.shell.replication.replica.intake import Intake
from engine.shell.replication.replica.link import MasterLink
from engine.shell.replication.replica.link_states import Link
from engine.shell.replication.replica.transfer import Transfer

#: Names of the states in ROLE.
_NAMES = {
    Link.WAITING: b"connect",
    Link.REFUSED: b"connect",
    Link.CONNECTING: b"connecting",
    Link.HANDSHAKE: b"handshake",
    Link.TRANSFER: b"sync",
    Link.LOADING: b"sync",
    Link.FOLLOWING: b"connected",
}


@dataclass(frozen=True, slots=True)
class RoleReport:
    """State of a replica at one moment. Times are by a monotonic clock, in seconds."""

    #: The master's address.
    host: bytes
    port: int
    state: Link
    #: Offset of the data in the master's history; None if the data is not part of it.
    offset: int | None
    link: MasterLink | None
    transfer: Transfer | None
    #: Whether the old data is served until the new data is complete.
    keeps_old_data: bool
    intake: Intake | None
    #: Reason why the link is down; empty if unknown.
    trouble: str
    #: Time when the link was lost; -1 if the link was never up.
    down_since: float
    now: float

    @property
    def _is_up(self) -> bool:
        return self.state is Link.FOLLOWING

    def role(self) -> Reply:
        """Return ROLE's reply."""
        return [b"slave", self.host, self.port, _NAMES[self.state], (self.offset or 0) if self._is_up else -1]

    def info(self, config: Config) -> list[tuple[str, Any]]:
        """Return the lines of INFO replication about the master and the link to it."""
        syncing = self.state in (Link.TRANSFER, Link.LOADING)
        offset = self.offset or 0
        lines: list[tuple[str, Any]] = [
            ("master_host", self.host.decode("utf-8", "backslashreplace")),
            ("master_port", self.port),
            ("master_link_status", "up" if self._is_up else "down"),
            ("master_last_io_seconds_ago", self._silent if self._is_up else -1),
            ("master_sync_in_progress", int(syncing)),
            ("slave_read_repl_offset", offset + (self.intake.waiting if self.intake is not None else 0)),
            ("slave_repl_offset", offset),
        ]
        if syncing:
            lines += self._progress()
        if not self._is_up:
            since = int(self.now - self.down_since) if self.down_since >= 0 else -1
            lines.append(("master_link_down_since_seconds", since))
        lines += [
            ("slave_priority", config.integer("replica-priority")),
            ("slave_read_only", int(config.flag("replica-read-only"))),
            ("replica_announced", int(config.flag("replica-announced"))),
        ]
        if self.trouble and not self._is_up:
            lines.append(("engine_master_link_error", self.trouble.replace("\r", " ").replace("\n", " ")))
        if self.state is Link.REFUSED:
            lines.append(("engine_master_refused", 1))
        return lines

    @property
    def _silent(self) -> int:
        """Seconds since the last bytes of the master."""
        return int(self.now - self.link.received_at) if self.link is not None else -1

    def _progress(self) -> list[tuple[str, Any]]:
        transfer = self.transfer
        received, size = (transfer.received, transfer.size) if transfer is not None else (0, 0)
        known = max(size, 0)
        return [
            ("master_sync_total_bytes", known),
            ("master_sync_read_bytes", received),
            ("master_sync_left_bytes", max(known - received, 0)),
            ("master_sync_perc", f"{100 * received / known if known else 0:.2f}"),
            ("master_sync_last_io_seconds_ago", self._silent),
        ]

    def loading(self, time_of_day: int) -> list[tuple[str, Any]]:
        """Return INFO persistence's lines about data being loaded; empty if no data is being loaded. ``time_of_day``:
        seconds since the epoch.
        """
        transfer = self.transfer
        if transfer is None or self.state is not Link.LOADING:
            return []
        seconds, read, total = transfer.seconds, transfer.read, transfer.received
        return [
            ("loading", int(not self.keeps_old_data)),
            ("async_loading", int(self.keeps_old_data)),
            ("loading_start_time", time_of_day - int(seconds)),
            ("loading_total_bytes", total),
            ("loading_loaded_bytes", read),
            ("loading_loaded_perc", f"{100 * read / total if total else 0:.2f}"),
            ("loading_eta_seconds", int(seconds * (total - read) / read) if read else 1),
        ]
