"""A full synchronisation on a replica: all data of the master come, are read, and take the place of what was here.

Reading is done a little at a time, and clients are served in between. The link and its state are the owner's
(:mod:`engine.shell.replication.replica.following`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from engine.core.dispatch import Core
from engine.core.formats.damage import DamagedError, ForeignError
from engine.core.formats.rdb.reader import Summary
from engine.shell.observation.reporting import LOG
from engine.shell.replication.history import History
from engine.shell.replication.replica.handshake import Full
from engine.shell.replication.replica.transfer import Transfer, TransferError


class FullSyncOwner(Protocol):
    """Who is told how it goes on."""

    def data_came(self) -> None:
        """All bytes are here: they are read from now on."""

    def data_read(self) -> None:
        """All has been read, and is to be put in place."""

    def restrain(self) -> None:
        """Some bytes have been read: it may have changed whether more are to be taken."""

    def lost(self, why: str, *, costly: bool = False) -> None:
        """The data are damaged, or cannot be kept: they are to be asked for again."""

    def refuse(self, why: str) -> None:
        """There is something among them that the engine cannot take."""


class FullSync:
    """One of them, as ``full`` announced it. A TransferError says that there is no place for the data."""

    def __init__(self, core: Core, clock: Callable[[], float], full: Full, owner: FullSyncOwner) -> None:
        self._core = core
        self._owner = owner
        #: The history that the data belong to.
        self.full = full
        load = core.config.text("repl-diskless-load")
        is_empty = not any(len(db) for db in core.databases)
        #: The data that there are are served until the new ones are whole.
        self.is_beside = load == b"swapdb"
        self.transfer = Transfer(core, clock, directly=self.is_beside or (load == b"on-empty-db" and is_empty))
        self.transfer.on_loaded = self._read
        self._is_due = self._is_over = False
        #: What was here is no more; what takes its place is not whole yet.
        self._is_replacing = False

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the master; what stands behind the data."""
        transfer, owner = self.transfer, self._owner
        try:
            rest = transfer.feed(data)
        except TransferError as error:
            owner.lost(str(error), costly=True)
            return b""
        if transfer.is_received:
            LOG.info("all data of the master have come: %d bytes", transfer.received)
            if not self.is_beside:
                self._begin_replacing()
                for db in self._core.databases:
                    db.clear()
            owner.data_came()
        if transfer.is_received or transfer.is_direct:
            owner.restrain()
            if not self._is_due:
                self._read()
        return rest

    def _begin_replacing(self) -> None:
        self._is_replacing = True
        self._core.durability.begin_replacing()

    def _read(self) -> None:
        """Read a little of the data, and go on in the next event-loop iteration."""
        self._is_due = False
        if self._is_over:
            return
        owner = self._owner
        try:
            self._is_due = self.transfer.work()
        except TransferError as error:
            owner.lost(str(error), costly=True)
        except ForeignError as error:
            owner.refuse(f"byte {error.offset} of its data: {error.what}")
        except DamagedError as error:
            owner.lost(f"byte {error.offset} of its data: {error.what}", costly=True)
        except Exception as error:  # noqa: BLE001 - the data are thrown away, nothing else knows them
            LOG.exception("unforeseen error while the master's data were read")
            owner.lost(f"its data cannot be read: {error!r}", costly=True)
        else:
            if self.transfer.is_done:
                owner.data_read()
                return
            if self._is_due:
                asyncio.get_running_loop().call_soon(self._read)
            owner.restrain()

    def put_in_place(self) -> Summary:
        """The core has these data from now on; what they are."""
        if self.is_beside:
            self._begin_replacing()
        self.transfer.put_in_place()
        self._end_replacing()
        self.close()
        return self.transfer.summary

    def _end_replacing(self) -> None:
        self._is_replacing = False
        self._core.durability.end_replacing()

    def close(self) -> bool:
        """It is over; whether what was here has been freed for data that have not taken its place."""
        self._is_over = True
        self.transfer.close()
        if not self._is_replacing:
            return False
        self._end_replacing()
        return True


def tell_what_is_discarded(core: Core, full: Full, history: History | None, unconfirmed: int) -> None:
    """Log what a full synchronisation takes away. ``history`` is that of the data, if they belong to one;
    ``unconfirmed`` bytes of it were made here, and no replica has acknowledged them.
    """
    keys = sum(len(db) for db in core.databases)
    LOG.info(
        "full synchronisation: the master sends all data at offset %d of its history %s", full.offset, full.id.decode()
    )
    if history is None:
        if keys:
            LOG.warning("discarded: %d keys, which this server had before it followed a master", keys)
    elif keys:
        LOG.warning(
            "discarded: %d keys at offset %d of the history %s, which the master does not continue%s",
            keys,
            history.offset,
            history.id.decode(),
            f" ({history.offset - full.offset} bytes beyond where it is)" if history.offset > full.offset else "",
        )
        if unconfirmed:
            LOG.warning("discarded: the last %d bytes of that history no replica has acknowledged", unconfirmed)
