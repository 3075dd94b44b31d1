"""A companion's life.

            WANTED               ENDED
    OFF ─────────────> RUNNING ─────────> RESTING
     ^                 │  │  ^             │   │
     │ ENDED  UNWANTED │  │  └─────────────┘   │ UNWANTED
     │                 v  │      RESTED        │
     └────────────── ENDING <──────────────────┘
                       │  ^ UNWANTED
                WANTED v  │                   ENDED
              WANTED ─> RENEWING ─────────────────> RUNNING

WANTED is said again when its settings have changed: a process that runs is ended then, and started anew. UNWANTED may
be said where there is nothing to end. A process that ends by itself is started again after a rest.
"""

from __future__ import annotations

from enum import Enum, auto

from streamwire.machine import Machine


class Companion(Enum):
    """What there is to be said of its process."""

    OFF = auto()
    RUNNING = auto()
    #: It has ended by itself; the next one is started in a while.
    RESTING = auto()
    #: It was told to end.
    ENDING = auto()
    #: It was told to end, and another one follows.
    RENEWING = auto()


class CompanionEvent(Enum):
    """What happens to it."""

    WANTED = auto()
    UNWANTED = auto()
    ENDED = auto()
    RESTED = auto()


_S, _E = Companion, CompanionEvent
TABLE = {
    (_S.OFF, _E.WANTED): _S.RUNNING,
    (_S.OFF, _E.UNWANTED): _S.OFF,
    (_S.RUNNING, _E.WANTED): _S.RENEWING,
    (_S.RUNNING, _E.UNWANTED): _S.ENDING,
    (_S.RUNNING, _E.ENDED): _S.RESTING,
    (_S.RESTING, _E.WANTED): _S.RENEWING,
    (_S.RESTING, _E.UNWANTED): _S.ENDING,
    (_S.RESTING, _E.RESTED): _S.RUNNING,
    (_S.ENDING, _E.WANTED): _S.RENEWING,
    (_S.ENDING, _E.UNWANTED): _S.ENDING,
    (_S.ENDING, _E.ENDED): _S.OFF,
    (_S.RENEWING, _E.WANTED): _S.RENEWING,
    (_S.RENEWING, _E.UNWANTED): _S.ENDING,
    (_S.RENEWING, _E.ENDED): _S.RUNNING,
}


def companion() -> Machine[Companion, CompanionEvent]:
    """A machine without a process."""
    return Machine("the companion", TABLE, Companion.OFF)
