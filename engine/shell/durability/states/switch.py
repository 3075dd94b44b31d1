"""Switching the log on and off: the directive ``appendonly``, at startup and by CONFIG SET.

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

CONFIG SET appendonly yes returns OK when the writing of the first base has started. The base contains all data of that
moment. Later effects are kept in memory until the base is complete, and then written to an increment. If the base
cannot be written, each retry writes the data of its own time. If the process is asked to exit before the log is ON, the
base is written first.
"""

from __future__ import annotations

from enum import Enum, auto

from streamwire.machine import Machine


class Switch(Enum):
    """Whether there is a log."""

    OFF = auto()
    #: The log is enabled, and its first base is being written.
    FIRST_BASE = auto()
    #: The log is enabled. Writing its first base has failed, and will be retried.
    RETRYING = auto()
    #: The log is in use: effects are logged before their replies are sent.
    ON = auto()


class SwitchEvent(Enum):
    """Events of the switch."""

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
    """Return a new state machine, in the state OFF."""
    return Machine("the log's switch", TABLE, Switch.OFF)
