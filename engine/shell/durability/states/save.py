"""States of a background save: BGSAVE and the ``save`` directive.

             ASKED
    IDLE ─────────────> SCHEDULED <─┐ ASKED
     │ ^ <───────────────  │    └───┘
     │ │     ABANDONED     │
     │ │                   │ BEGUN
     │ │                   v
     │ └─────────────── WRITING
     │   WRITTEN           ^
     │   FAILED            │
     │   ABANDONED         │
     └─────────────────────┘
               BEGUN

BGSAVE requests a save, which starts when the current command is done and nothing else is being written. The directive
starts a save immediately. The thread of an abandoned save stops soon, and removes its file. Another save may start
immediately.
"""

from __future__ import annotations

from enum import Enum, auto

from streamwire.machine import Machine


class Save(Enum):
    """State of a background save."""

    IDLE = auto()
    #: A save was requested, and starts as soon as possible.
    SCHEDULED = auto()
    #: A thread is writing the snapshot.
    WRITING = auto()


class SaveEvent(Enum):
    """Events of a background save."""

    ASKED = auto()
    BEGUN = auto()
    WRITTEN = auto()
    FAILED = auto()
    #: The save is no longer needed: the process exits, or a newer snapshot is written.
    ABANDONED = auto()


_S, _E = Save, SaveEvent
TABLE = {
    (_S.IDLE, _E.ASKED): _S.SCHEDULED,
    (_S.IDLE, _E.BEGUN): _S.WRITING,
    (_S.SCHEDULED, _E.ASKED): _S.SCHEDULED,
    (_S.SCHEDULED, _E.BEGUN): _S.WRITING,
    (_S.SCHEDULED, _E.ABANDONED): _S.IDLE,
    (_S.WRITING, _E.WRITTEN): _S.IDLE,
    (_S.WRITING, _E.FAILED): _S.IDLE,
    (_S.WRITING, _E.ABANDONED): _S.IDLE,
}


def save() -> Machine[Save, SaveEvent]:
    """Return a new state machine, in the state IDLE."""
    return Machine("the background save", TABLE, Save.IDLE)
