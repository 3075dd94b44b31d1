"""States of the link from a replica to its master.

          FOLLOW             DUE                CONNECTED                FULL                RECEIVED
    OFF ─────────> WAITING ───────> CONNECTING ───────────> HANDSHAKE ─────────> TRANSFER ──────────> LOADING
                    ^                                           │                                        │
                    │                                           │ CONTINUE                        LOADED │
                    │ LOST, from all states after WAITING       v                                        │
                    └────────────────────────────────────── FOLLOWING <──────────────────────────────────┘

    FOLLOW (REPLICAOF host port) leads from every state to WAITING, LEAD (REPLICAOF NO ONE) from every state to OFF.
    UNUSABLE leads from TRANSFER, LOADING and FOLLOWING to REFUSED, which only REPLICAOF ends.

A link that is lost during LOADING fires LOST only after LOADED; the rest of the stream is then requested over a new
link. During LOADING, LOST is fired only if the received data is damaged or unreadable; it is then requested again.
"""

from __future__ import annotations

from enum import Enum, auto

from streamwire.machine import Machine


class Link(Enum):
    """State of the link to the master."""

    #: This server is not a replica.
    OFF = auto()
    #: The next attempt starts soon.
    WAITING = auto()
    CONNECTING = auto()
    #: This server identifies itself and requests the master's data or stream: PING, AUTH, REPLCONF, PSYNC.
    HANDSHAKE = auto()
    #: All data of the master is being received.
    TRANSFER = auto()
    #: All data has been received, and replaces the current data.
    LOADING = auto()
    #: The master's stream is being applied.
    FOLLOWING = auto()
    #: The master sent something that the engine does not support: this server has stopped following it.
    REFUSED = auto()


class LinkEvent(Enum):
    """Events of the link."""

    FOLLOW = auto()
    LEAD = auto()
    DUE = auto()
    CONNECTED = auto()
    FULL = auto()
    CONTINUE = auto()
    RECEIVED = auto()
    LOADED = auto()
    LOST = auto()
    UNUSABLE = auto()


_S, _E = Link, LinkEvent
TABLE: dict[tuple[Link, LinkEvent], Link] = {
    **{(state, _E.FOLLOW): _S.WAITING for state in Link},
    **{(state, _E.LEAD): _S.OFF for state in Link},
    **{(state, _E.LOST): _S.WAITING for state in Link if state not in (_S.OFF, _S.WAITING, _S.REFUSED)},
    **{(state, _E.UNUSABLE): _S.REFUSED for state in (_S.TRANSFER, _S.LOADING, _S.FOLLOWING)},
    (_S.WAITING, _E.DUE): _S.CONNECTING,
    (_S.CONNECTING, _E.CONNECTED): _S.HANDSHAKE,
    (_S.HANDSHAKE, _E.FULL): _S.TRANSFER,
    (_S.HANDSHAKE, _E.CONTINUE): _S.FOLLOWING,
    (_S.TRANSFER, _E.RECEIVED): _S.LOADING,
    (_S.LOADING, _E.LOADED): _S.FOLLOWING,
}


def link() -> Machine[Link, LinkEvent]:
    """Return a new state machine, in the state OFF."""
    return Machine("the link to the master", TABLE, Link.OFF)
