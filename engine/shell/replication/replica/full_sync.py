"""Full synchronisation of a replica: all data of the master arrives, is loaded, and replaces the old data.

Loading is done in small steps, and clients are served in between. `engine.shell.replication.replica.replica_role`
owns the link and its state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from engine.core.dispatch import Core
from engine.core.formats.damage import DamagedError, ForeignError
from engine.core.formats.rdb.reader import Summary
from engine.shell.observation.log_lines import LOG
from engine.shell.replication.history import History
from engine.shell.replication.replica.handshake import Full
from engine.shell.replication.replica.transfer import Transfer, TransferError


class FullSyncOwner(Protocol):
    """Owner of the synchronisation, with callbacks for its progress."""

    def data_arrived(self) -> None:
        """Record that all bytes have arrived and are being loaded."""

    def old_data_ends(self) -> None:
        """Log what is lost: the old data is about to be freed."""

    def data_loaded(self) -> None:
        """Put the loaded data in place."""

    def lost(self, why: str, *, costly: bool = False) -> None:
        """Handle damaged data, or data that cannot be stored: it must be requested again."""

    def refuse(self, why: str) -> None:
        """Stop following: the data has something that the engine does not support."""


class FullSync:
    """One synchronisation, announced by ``full``. Raises TransferError if the data cannot be stored."""

    def __init__(self, core: Core, clock: Callable[[], float], full: Full, owner: FullSyncOwner) -> None:
        self._core = core
        self._owner = owner
        #: Announcement with the history of the data.
        self.full = full
        #: Whether the old data is served until the new data is complete.
        self.keeps_old_data = core.config.text("repl-diskless-load") == b"swapdb"
        self.transfer = Transfer(core, clock)
        self.transfer.on_loaded = self._read
        self.transfer.on_scanned = self._drop_old_data
        self._is_over = False
        #: Whether the old data was freed, and the new data is not complete yet.
        self._is_replacing = False

    def feed(self, data: bytes) -> bytes:
        """Process bytes of the master; return the bytes after the data."""
        transfer, owner = self.transfer, self._owner
        try:
            rest = transfer.feed(data)
        except TransferError as error:
            owner.lost(str(error), costly=True)
            return b""
        if transfer.is_received:
            LOG.info("received all data of the master: %d bytes", transfer.received)
            owner.data_arrived()
            self._read()
        return rest

    def _drop_old_data(self) -> None:
        """Free the memory of the old data, unless it is served: the new data can be loaded."""
        if self.keeps_old_data:
            return
        self._start_replacement()
        for db in self._core.databases:
            db.clear()

    def _start_replacement(self) -> None:
        self._owner.old_data_ends()
        self._is_replacing = True
        self._core.divided.finish_all()
        self._core.durability.start_replacement()

    def _read(self) -> None:
        """Load some of the data, and continue in the next event-loop iteration."""
        if self._is_over:
            return
        owner = self._owner
        try:
            is_due = self.transfer.work()
        except TransferError as error:
            owner.lost(str(error), costly=True)
        except ForeignError as error:
            owner.refuse(f"byte {error.offset} of the master's data: {error.reason}")
        except DamagedError as error:
            owner.lost(f"byte {error.offset} of the master's data: {error.reason}", costly=True)
        except Exception as error:  # noqa: BLE001 - the data is discarded, and nothing else refers to it
            LOG.exception("unexpected error while loading the master's data")
            owner.lost(f"the master's data cannot be read: {error!r}", costly=True)
        else:
            if self.transfer.is_done:
                owner.data_loaded()
                return
            if is_due:
                asyncio.get_running_loop().call_soon(self._read)

    def put_in_place(self) -> Summary:
        """Replace the core's data with the loaded data; return its summary."""
        if not self._is_replacing:
            self._start_replacement()
        self.transfer.put_in_place()
        self._finish_replacement()
        self.close()
        return self.transfer.summary

    def _finish_replacement(self) -> None:
        self._is_replacing = False
        self._core.durability.finish_replacement()

    def close(self) -> bool:
        """End the synchronisation; return whether the old data was freed, but the new data is not complete."""
        self._is_over = True
        self.transfer.close()
        if not self._is_replacing:
            return False
        self._finish_replacement()
        return True


def log_discarded_data(core: Core, full: Full, history: History | None, unconfirmed: int) -> None:
    """Log the loss of the core's data in a full synchronisation. ``history``: history of the old data, if any;
    ``unconfirmed``: number of its last bytes that this server wrote and no replica has acknowledged.
    """
    keys = sum(len(db) for db in core.databases)
    if history is None:
        if keys:
            LOG.warning("discarding %d keys that this server had before it followed a master", keys)
    elif keys:
        LOG.warning(
            "discarding %d keys at offset %d of the history %s, which the master does not continue%s",
            keys,
            history.offset,
            history.id.decode(),
            f" ({history.offset - full.offset} bytes more than the master has)" if history.offset > full.offset else "",
        )
        if unconfirmed:
            LOG.warning("discarding the last %d bytes of that history, which no replica has acknowledged", unconfirmed)
