"""Life cycle of the data in memory: loaded, in use, saved a last time, closed.

              LOADED                 SHUTDOWN               SAVED
    LOADING ──────────> RUNNING ──────────────> LAST_SAVE ─────────> ENDING <─┐ SHUTDOWN
     │   ^               │  │ ^                     │                 ^  │ └──┘
     │   └───────────────┘  │ └─────────────────────┘                 │  │
     │        RELOAD        │         SAVE_FAILED                     │  │ CLOSED
     │                      └───────────────────────────────> CLOSED <┼──┘
     │                                 CLOSED                         │
     └────────────────────────────────────────────────────────────────┘
                                LOAD_FAILED, SHUTDOWN

    CLOSED also leads from LOADING to CLOSED. FAULT leads from LOADING, RUNNING and ENDING to ENDING, and leaves
    CLOSED as it is. An unexpected error while data is loaded is LOAD_FAILED, and during the final save SAVE_FAILED.

A replica loads its master's data in place of its own (RELOAD) in small steps, and replies to clients in between. A
shutdown during the loading saves nothing, because the files on disk are complete.

After the final save, the data does not change, and nothing else is saved. The same applies after a failed reload (DEBUG
RELOAD), because incomplete data must not replace the data on disk. It also applies after an unexpected error in a
command (FAULT), because the data may contain a half-done change.
"""

from __future__ import annotations

from enum import Enum, auto

from streamwire.machine import Machine


class Life(Enum):
    """Permitted uses of the data."""

    #: The data is being loaded.
    LOADING = auto()
    #: Commands run, and their effects are logged.
    RUNNING = auto()
    #: The process is to exit: unsaved data is being written to disk.
    LAST_SAVE = auto()
    #: The process is exiting: write commands are rejected, and nothing is saved.
    ENDING = auto()
    #: The files are closed and may belong to another engine.
    CLOSED = auto()


class LifeEvent(Enum):
    """Events in the life of the data."""

    LOADED = auto()
    LOAD_FAILED = auto()
    #: DEBUG RELOAD or LOADAOF discards the data and loads it again, or a master's data replaces it.
    RELOAD = auto()
    #: SHUTDOWN, or a signal.
    SHUTDOWN = auto()
    SAVED = auto()
    SAVE_FAILED = auto()
    #: An unexpected error may have left a change to the data half done.
    FAULT = auto()
    CLOSED = auto()


_S, _E = Life, LifeEvent
TABLE: dict[tuple[Life, LifeEvent], Life] = {
    (_S.LOADING, _E.LOADED): _S.RUNNING,
    (_S.LOADING, _E.LOAD_FAILED): _S.ENDING,
    (_S.LOADING, _E.SHUTDOWN): _S.ENDING,
    (_S.LOADING, _E.CLOSED): _S.CLOSED,
    (_S.LOADING, _E.FAULT): _S.ENDING,
    (_S.RUNNING, _E.RELOAD): _S.LOADING,
    (_S.RUNNING, _E.SHUTDOWN): _S.LAST_SAVE,
    (_S.RUNNING, _E.CLOSED): _S.CLOSED,
    (_S.LAST_SAVE, _E.SAVED): _S.ENDING,
    (_S.LAST_SAVE, _E.SAVE_FAILED): _S.RUNNING,
    (_S.ENDING, _E.SHUTDOWN): _S.ENDING,
    (_S.ENDING, _E.CLOSED): _S.CLOSED,
    (_S.RUNNING, _E.FAULT): _S.ENDING,
    (_S.ENDING, _E.FAULT): _S.ENDING,
    (_S.CLOSED, _E.FAULT): _S.CLOSED,
}


def life() -> Machine[Life, LifeEvent]:
    """Return a new state machine, in the state LOADING."""
    return Machine("the data's life", TABLE, Life.LOADING)
