"""The link from a replica to its master: its states, and what leads from one to the next.

          FOLLOW             DUE                CONNECTED                FULL                RECEIVED
    OFF ─────────> WAITING ───────> CONNECTING ───────────> HANDSHAKE ─────────> TRANSFER ──────────> LOADING
                    ^                                           │                                        │
                    │                                           │ CONTINUE                        LOADED │
                    │ LOST, from every state                    v                                        │
                    └────────────────────────────────────── FOLLOWING <──────────────────────────────────┘

    FOLLOW (REPLICAOF host port) leads from every state to WAITING, LEAD (REPLICAOF NO ONE) from every state to OFF.
    UNUSABLE leads from TRANSFER, LOADING and FOLLOWING to REFUSED, which only REPLICAOF ends.

A link that is lost while the data are being loaded is only noticed when they have been loaded: then the rest is asked
for. LOST in LOADING is a file that is not what the master has sent: it is asked for again.
"""

from __future__ import annotations

from enum import Enum, auto

from streamwire.machine import Machine


class Link(Enum):
    """How far this server is in following its master."""

    #: It follows nobody.
    OFF = auto()
    #: The next attempt begins soon.
    WAITING = auto()
    CONNECTING = auto()
    #: Who is who, and from where on: PING, AUTH, REPLCONF, PSYNC.
    HANDSHAKE = auto()
    #: All data of the master are on their way.
    TRANSFER = auto()
    #: They have come, and take the place of what was here.
    LOADING = auto()
    #: What the master does is done here.
    FOLLOWING = auto()
    #: The master has, or does, what the engine cannot take: it is followed no further.
    REFUSED = auto()


class LinkEvent(Enum):
    """What happens to it."""

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
    """A machine for a server that follows nobody."""
    return Machine("the link to the master", TABLE, Link.OFF)
