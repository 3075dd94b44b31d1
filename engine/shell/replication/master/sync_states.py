"""Synchronisation states of one replica.

                 CONTINUED (the backlog has all bytes that the replica lacks)
    WAITING ─────────────────────────────────────────────────────────────> ONLINE
       │ IMAGE_TAKEN              SENT                                       ^
       └─────────────> RECEIVING ──────────────────────────────────────────────┘
                           │ SENT_ALONE
                           └─────────────────────────────────────────────> SERVED

While a replica is RECEIVING, the stream is queued for it. SERVED is for a client that requested only the file.
"""

from __future__ import annotations

from enum import Enum, auto

from streamwire.machine import Machine


class Sync(Enum):
    """Synchronisation state of one replica."""

    #: The replica needs a file with all data, which is not being written yet.
    WAITING = auto()
    #: The file is being written or sent. The stream is queued.
    RECEIVING = auto()
    #: The replica receives the stream.
    ONLINE = auto()
    #: The client has the file, and receives nothing else.
    SERVED = auto()


class SyncEvent(Enum):
    """Events of the synchronisation."""

    CONTINUED = auto()
    IMAGE_TAKEN = auto()
    SENT = auto()
    SENT_ALONE = auto()


_S, _E = Sync, SyncEvent
TABLE = {
    (_S.WAITING, _E.CONTINUED): _S.ONLINE,
    (_S.WAITING, _E.IMAGE_TAKEN): _S.RECEIVING,
    (_S.RECEIVING, _E.SENT): _S.ONLINE,
    (_S.RECEIVING, _E.SENT_ALONE): _S.SERVED,
}


def sync() -> Machine[Sync, SyncEvent]:
    """Return a new state machine, in the state WAITING."""
    return Machine("a replica", TABLE, Sync.WAITING)
