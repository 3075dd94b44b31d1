"""The log switched on and off: the directive ``appendonly``, at the start and by CONFIG SET.

                     OPENED (at the start)
      ┌────────────────────────────────────────────┐
      │                                            v
      │  SWITCHED_ON          BASE_WRITTEN
    OFF ────────────> FIRST_BASE ───────────────> ON
     ^                 │      ^                    │
     │                 │      │ TRIED_AGAIN        │
     │     BASE_FAILED └──> RETRYING               │
     │                                             │
     └─────────────────────────────────────────────┘
        SWITCHED_OFF (from FIRST_BASE, RETRYING, ON)

CONFIG SET appendonly yes answers OK when the first base has begun to be written. It holds all data of that moment, and
what happens until it is there is kept in memory and written behind it. Where it cannot be written it is tried again,
with the data of the moment in which it begins. When the process is told to end before the log is ON, the base is
written before it does.
"""

from __future__ import annotations

from enum import Enum, auto

from streamwire.machine import Machine


class Switch(Enum):
    """Whether there is a log."""

    OFF = auto()
    #: Wanted: its first base is being written.
    FIRST_BASE = auto()
    #: Wanted: its first base could not be written, and will be tried again.
    RETRYING = auto()
    #: In use: what happens is in it before it is told.
    ON = auto()


class SwitchEvent(Enum):
    """What happens to it."""

    #: The engine starts with a log.
    OPENED = auto()
    SWITCHED_ON = auto()
    SWITCHED_OFF = auto()
    BASE_WRITTEN = auto()
    BASE_FAILED = auto()
    TRIED_AGAIN = auto()


_S, _E = Switch, SwitchEvent
TABLE = {
    (_S.OFF, _E.OPENED): _S.ON,
    (_S.OFF, _E.SWITCHED_ON): _S.FIRST_BASE,
    (_S.FIRST_BASE, _E.BASE_WRITTEN): _S.ON,
    (_S.FIRST_BASE, _E.BASE_FAILED): _S.RETRYING,
    (_S.FIRST_BASE, _E.SWITCHED_OFF): _S.OFF,
    (_S.RETRYING, _E.TRIED_AGAIN): _S.FIRST_BASE,
    (_S.RETRYING, _E.SWITCHED_OFF): _S.OFF,
    (_S.ON, _E.SWITCHED_OFF): _S.OFF,
}


def switch() -> Machine[Switch, SwitchEvent]:
    """A machine for a log that is off."""
    return Machine("the log's switch", TABLE, Switch.OFF)
