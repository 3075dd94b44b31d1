"""Saving a snapshot in the background: BGSAVE and the ``save`` directive.

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

BGSAVE asks; it begins when the present command is done and nothing else is being written. The directive begins at once.
A save that is abandoned is over for everybody but its thread, which notices and removes its file: another save may
begin, in the background or not.
"""

from __future__ import annotations

from enum import Enum, auto

from streamwire.machine import Machine


class Save(Enum):
    """What there is to be said of a save in the background."""

    IDLE = auto()
    #: Wanted; begins as soon as it can.
    SCHEDULED = auto()
    #: A thread writes it.
    WRITING = auto()


class SaveEvent(Enum):
    """What happens to it."""

    ASKED = auto()
    BEGUN = auto()
    WRITTEN = auto()
    FAILED = auto()
    #: Nobody wants it any more: the process ends, or a newer snapshot is written.
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
    """A machine without a save."""
    return Machine("the background save", TABLE, Save.IDLE)
