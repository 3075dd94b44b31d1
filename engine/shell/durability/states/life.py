"""The life of the engine's data in memory: loaded, in use, saved for the last time, gone.

              LOADED                 SHUTDOWN               SAVED
    LOADING ──────────> RUNNING ──────────────> LAST_SAVE ─────────> ENDING <─┐ SHUTDOWN
     │   ^               │  │ ^                     │                 ^  │ └──┘
     │   └───────────────┘  │ └─────────────────────┘                 │  │
     │        RELOAD        │         SAVE_FAILED                     │  │ CLOSED
     │                      └───────────────────────────────> CLOSED <┼──┘
     │                                 CLOSED                         │
     └────────────────────────────────────────────────────────────────┘
                                LOAD_FAILED, SHUTDOWN

    CLOSED leads from LOADING to CLOSED as well. FAULT leads from LOADING, RUNNING and ENDING to ENDING, and leaves
    CLOSED as it is. An unforeseen error while the data are read is LOAD_FAILED, and one while they are saved for the
    last time SAVE_FAILED.

The data of a master that take the place of all that there are (RELOAD) are read while clients are served: when the
process is told to end meanwhile, nothing is saved, because what is on the disk is whole.

Once the data have been saved for the last time nothing changes them any more, and nothing else is saved. The same holds
where they could not be loaded again (DEBUG RELOAD): what is in memory then must not take the place of what is on the
disk. And after an unforeseen error in a command (FAULT): the data may be half changed.
"""

from __future__ import annotations

from enum import Enum, auto

from streamwire.machine import Machine


class Life(Enum):
    """What the data are good for."""

    #: They are read from the disk.
    LOADING = auto()
    #: Commands are run, and what they do is kept.
    RUNNING = auto()
    #: The process is to end: what belongs on the disk is brought there.
    LAST_SAVE = auto()
    #: The process ends: commands that write are refused, and nothing is saved.
    ENDING = auto()
    #: The files are closed and may belong to somebody else.
    CLOSED = auto()


class LifeEvent(Enum):
    """What happens to them."""

    LOADED = auto()
    LOAD_FAILED = auto()
    #: DEBUG RELOAD or LOADAOF throws the data away and reads them again.
    RELOAD = auto()
    #: SHUTDOWN, or a signal.
    SHUTDOWN = auto()
    SAVED = auto()
    SAVE_FAILED = auto()
    #: An unforeseen error may have left the data half changed.
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
    """A machine for data that are about to be loaded."""
    return Machine("the data's life", TABLE, Life.LOADING)
