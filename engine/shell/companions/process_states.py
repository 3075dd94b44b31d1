"""States of a companion's process.

            WANTED               ENDED
    OFF ─────────────> RUNNING ─────────> RESTING
     ^                 │  │  ^             │   │
     │ ENDED  UNWANTED │  │  └─────────────┘   │ UNWANTED
     │                 v  │      RESTED        │
     └────────────── ENDING <──────────────────┘
                       │  ^ UNWANTED
                WANTED v  │                   ENDED
              WANTED ─> RENEWING ─────────────────> RUNNING

WANTED is fired again when the companion's settings change. It then leads from RUNNING and RESTING to RENEWING, too: a
running process is stopped and a new one started. UNWANTED may be fired when there is no process. A process that ends by
itself is restarted after a pause.
"""

from __future__ import annotations

from enum import Enum, auto

from streamwire.machine import Machine


class Companion(Enum):
    """State of a companion's process."""

    OFF = auto()
    RUNNING = auto()
    #: The process ended by itself; the next one starts after a pause.
    RESTING = auto()
    #: The process was asked to end, or the pause before its restart was ended.
    ENDING = auto()
    #: As ENDING, but a new process will be started afterwards.
    RENEWING = auto()


class CompanionEvent(Enum):
    """Events of a companion's process."""

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
    """Return a new state machine, in the state OFF."""
    return Machine("the companion", TABLE, Companion.OFF)
