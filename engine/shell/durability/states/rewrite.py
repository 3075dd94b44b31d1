"""Rewriting the log: BGREWRITEAOF, a log that has grown, one that is broken, and the first base of a new one.

                ASKED
      IDLE ──────────────> SCHEDULED <─┐ ASKED
     │  ^ <───────────────  │     └────┘
     │  │ FAILED, ABANDONED │
     │  │                   │
     ├──┼───────────────────┤
     │  │ BEGUN_BESIDE_LOG  │ BEGUN_WITHOUT_LOG       (from both)
     │  │       v                   v
     │  │   BESIDE_LOG          WITHOUT_LOG
     │  │       │                   │
     │  └───────┴───────────────────┘
     │     WRITTEN, FAILED, ABANDONED
     └─> IDLE  FAILED: it could not begin

BESIDE_LOG is the usual way: the log goes on in a new increment that its manifest names at once, so the files tell
everything whether or not the base will be there. WITHOUT_LOG is for a log that is broken or not there yet: what happens
until the base is there is kept in memory, and written behind it.

An attempt that is abandoned is over for everybody but its thread, which notices and removes its file: another one may
begin at once.
"""

from __future__ import annotations

from enum import Enum, auto

from streamwire.machine import Machine


class Rewrite(Enum):
    """What there is to be said of a rewrite."""

    IDLE = auto()
    #: Wanted; begins as soon as it can.
    SCHEDULED = auto()
    #: A thread writes the base, and the log goes on in a new increment.
    BESIDE_LOG = auto()
    #: A thread writes the base, and there is no file that the log could go on in.
    WITHOUT_LOG = auto()


class RewriteEvent(Enum):
    """What happens to it."""

    ASKED = auto()
    BEGUN_BESIDE_LOG = auto()
    BEGUN_WITHOUT_LOG = auto()
    #: The base is written, and the manifest names it.
    WRITTEN = auto()
    #: It could not begin, or not be written.
    FAILED = auto()
    #: Nobody wants it any more: the log is switched off or on, written at once, or the process ends.
    ABANDONED = auto()


_S, _E = Rewrite, RewriteEvent
TABLE = {
    (_S.IDLE, _E.ASKED): _S.SCHEDULED,
    (_S.IDLE, _E.BEGUN_BESIDE_LOG): _S.BESIDE_LOG,
    (_S.IDLE, _E.BEGUN_WITHOUT_LOG): _S.WITHOUT_LOG,
    (_S.IDLE, _E.FAILED): _S.IDLE,
    (_S.SCHEDULED, _E.ASKED): _S.SCHEDULED,
    (_S.SCHEDULED, _E.BEGUN_BESIDE_LOG): _S.BESIDE_LOG,
    (_S.SCHEDULED, _E.BEGUN_WITHOUT_LOG): _S.WITHOUT_LOG,
    (_S.SCHEDULED, _E.FAILED): _S.IDLE,
    (_S.SCHEDULED, _E.ABANDONED): _S.IDLE,
    (_S.BESIDE_LOG, _E.WRITTEN): _S.IDLE,
    (_S.BESIDE_LOG, _E.FAILED): _S.IDLE,
    (_S.BESIDE_LOG, _E.ABANDONED): _S.IDLE,
    (_S.WITHOUT_LOG, _E.WRITTEN): _S.IDLE,
    (_S.WITHOUT_LOG, _E.FAILED): _S.IDLE,
    (_S.WITHOUT_LOG, _E.ABANDONED): _S.IDLE,
}


def rewrite() -> Machine[Rewrite, RewriteEvent]:
    """A machine without a rewrite."""
    return Machine("the rewrite of the log", TABLE, Rewrite.IDLE)
