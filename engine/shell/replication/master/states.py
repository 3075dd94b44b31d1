"""What there is to be said of one replica.

                 CONTINUED                        (partial: the backlog has what it lacks)
    WAITING ───────────────────────────────────────────────────────> ONLINE
       │                                            SENT               ^ ^
       │ IMAGE_TAKEN                  ┌────────────────────────────────┘ │
       v                              │                                  │ ACKNOWLEDGED
    RECEIVING ────────────────────────┤ MARKED                           │
                                      ├───────────────────────────> LOADING
                                      │ SENT_ALONE
                                      └───────────────────────────> SERVED

A file that ends with a mark must not be followed by anything before the replica has found the mark: what happens
meanwhile waits until it has acknowledged something. SERVED has a client that wanted the file alone.
"""

from __future__ import annotations

from enum import Enum, auto

from streamwire.machine import Machine


class Sync(Enum):
    """How far one replica is."""

    #: It gets a file with all data, which is not being written yet.
    WAITING = auto()
    #: The file is being written or sent. What happens meanwhile waits.
    RECEIVING = auto()
    #: The file has been sent; the replica has not said that it has found its end.
    LOADING = auto()
    #: It is sent what happens.
    ONLINE = auto()
    #: It has the file, and gets nothing else.
    SERVED = auto()


class SyncEvent(Enum):
    """What happens to it."""

    CONTINUED = auto()
    IMAGE_TAKEN = auto()
    SENT = auto()
    MARKED = auto()
    SENT_ALONE = auto()
    ACKNOWLEDGED = auto()


_S, _E = Sync, SyncEvent
TABLE = {
    (_S.WAITING, _E.CONTINUED): _S.ONLINE,
    (_S.WAITING, _E.IMAGE_TAKEN): _S.RECEIVING,
    (_S.RECEIVING, _E.SENT): _S.ONLINE,
    (_S.RECEIVING, _E.MARKED): _S.LOADING,
    (_S.RECEIVING, _E.SENT_ALONE): _S.SERVED,
    (_S.LOADING, _E.ACKNOWLEDGED): _S.ONLINE,
}


def sync() -> Machine[Sync, SyncEvent]:
    """A machine of a replica that has just come."""
    return Machine("a replica", TABLE, Sync.WAITING)
