"""States of a log rewrite: BGREWRITEAOF, a log that has grown or is broken, and the first base of a new log.

                ASKED
      IDLE ──────────────> SCHEDULED <─┐ ASKED
     │  ^ <───────────────  │     └────┘
     │  │ FAILED, ABANDONED │
     │  │                   │
     ├──┼───────────────────┤
     │  │ BEGUN_WITH_LOG    │ BEGUN_WITHOUT_LOG       (from both)
     │  │       v                   v
     │  │   WITH_LOG            WITHOUT_LOG
     │  │       │                   │
     │  └───────┴───────────────────┘
     │     WRITTEN, FAILED, ABANDONED
     └─> IDLE  FAILED: the rewrite could not start

WITH_LOG is the usual case: the log continues in a new increment, which the manifest names immediately, so the files are
complete even if the base is never written. WITHOUT_LOG is for a log that is broken or does not exist yet: effects are
kept in memory until the base is written, and then written to a new increment. If the log is off, only the base is
written. A synchronous rewrite is also WITHOUT_LOG, because no effects happen meanwhile.

The thread of an abandoned attempt stops soon, and its file is removed. Another attempt may start immediately.
"""

from __future__ import annotations

from enum import Enum, auto

from streamwire.machine import Machine


class Rewrite(Enum):
    """State of a rewrite."""

    IDLE = auto()
    #: A rewrite was requested, and starts as soon as possible.
    SCHEDULED = auto()
    #: A thread writes the base, and the log continues in a new increment.
    WITH_LOG = auto()
    #: The base is being written, and the log has no file to continue in meanwhile.
    WITHOUT_LOG = auto()


class RewriteEvent(Enum):
    """Events of a rewrite."""

    ASKED = auto()
    BEGUN_WITH_LOG = auto()
    BEGUN_WITHOUT_LOG = auto()
    #: The base is written, and the manifest names it.
    WRITTEN = auto()
    #: The rewrite could not start, or the base could not be written.
    FAILED = auto()
    #: The rewrite is no longer needed: the log is switched off or on, or rewritten synchronously, or the process exits.
    ABANDONED = auto()


_S, _E = Rewrite, RewriteEvent
TABLE = {
    (_S.IDLE, _E.ASKED): _S.SCHEDULED,
    (_S.IDLE, _E.BEGUN_WITH_LOG): _S.WITH_LOG,
    (_S.IDLE, _E.BEGUN_WITHOUT_LOG): _S.WITHOUT_LOG,
    (_S.IDLE, _E.FAILED): _S.IDLE,
    (_S.SCHEDULED, _E.ASKED): _S.SCHEDULED,
    (_S.SCHEDULED, _E.BEGUN_WITH_LOG): _S.WITH_LOG,
    (_S.SCHEDULED, _E.BEGUN_WITHOUT_LOG): _S.WITHOUT_LOG,
    (_S.SCHEDULED, _E.FAILED): _S.IDLE,
    (_S.SCHEDULED, _E.ABANDONED): _S.IDLE,
    (_S.WITH_LOG, _E.WRITTEN): _S.IDLE,
    (_S.WITH_LOG, _E.FAILED): _S.IDLE,
    (_S.WITH_LOG, _E.ABANDONED): _S.IDLE,
    (_S.WITHOUT_LOG, _E.WRITTEN): _S.IDLE,
    (_S.WITHOUT_LOG, _E.FAILED): _S.IDLE,
    (_S.WITHOUT_LOG, _E.ABANDONED): _S.IDLE,
}


def rewrite() -> Machine[Rewrite, RewriteEvent]:
    """Return a new state machine, in the state IDLE."""
    return Machine("the rewrite of the log", TABLE, Rewrite.IDLE)
