"""The file that the log is written to: whether it takes what is written, and whether it can be trusted.

                             LEFT
    CLOSED <──────────────────────────────────────────┐
      │                                               │ (from all three)
      │ OPENED           REFUSED                      │
      └────────> OPEN ────────────> HELD_UP <─┐       │
                  │ <─────────────  │  │  └───┘       │
                  │    CAUGHT_UP    │  │  REFUSED     │
                  │                 │  │              │
                  │ SPOILT          │  │ SPOILT       │
                  └──────> BROKEN <─┼──┘              │
                           │  ^ └───┼─────────────────┤
                           └──┘     └─────────────────┘
                          SPOILT

A write that the disk refuses is taken back: the file ends with its last whole block, what is to be written waits in
memory, and writing it is tried again and again (HELD_UP). After an fsync that failed, or a part of a block that could
not be cut off, nobody knows what the file holds (BROKEN): nothing more is written to it, and only a new file helps.
"""

from __future__ import annotations

from enum import Enum, auto

from streamwire.machine import Machine


class LogFile(Enum):
    """How the file is."""

    #: There is none.
    CLOSED = auto()
    OPEN = auto()
    #: The disk refused the last write; the bytes wait in memory.
    HELD_UP = auto()
    #: What it holds is not known; it is written to no more.
    BROKEN = auto()


class LogFileEvent(Enum):
    """What happens to it."""

    OPENED = auto()
    #: The disk refused a write, and the file has been cut back to its last whole block.
    REFUSED = auto()
    #: What waited has been written.
    CAUGHT_UP = auto()
    #: An fsync failed, or a refused write could not be taken back, or its content no longer matches the data.
    SPOILT = auto()
    #: It was closed, or the log goes on in another file.
    LEFT = auto()


_S, _E = LogFile, LogFileEvent
TABLE = {
    (_S.CLOSED, _E.OPENED): _S.OPEN,
    (_S.OPEN, _E.REFUSED): _S.HELD_UP,
    (_S.OPEN, _E.SPOILT): _S.BROKEN,
    (_S.OPEN, _E.LEFT): _S.CLOSED,
    (_S.HELD_UP, _E.REFUSED): _S.HELD_UP,
    (_S.HELD_UP, _E.CAUGHT_UP): _S.OPEN,
    (_S.HELD_UP, _E.SPOILT): _S.BROKEN,
    (_S.HELD_UP, _E.LEFT): _S.CLOSED,
    # The fsync beside the loop that was under way when the file broke may fail as well.
    (_S.BROKEN, _E.SPOILT): _S.BROKEN,
    (_S.BROKEN, _E.LEFT): _S.CLOSED,
}


def log_file() -> Machine[LogFile, LogFileEvent]:
    """A machine for a log without a file."""
    return Machine("the log's file", TABLE, LogFile.CLOSED)
