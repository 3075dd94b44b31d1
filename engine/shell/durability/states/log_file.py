"""State of the file that the log is written to: whether it accepts writes, and whether its content is known.

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

A rejected write is undone: the file is truncated to its last complete block, the data to write waits in memory, and the
write is retried (HELD_UP). After a failed fsync, or if part of a block could not be cut off, the content of the file is
unknown (BROKEN). Nothing more is written to it, and a new file is needed.
"""

from __future__ import annotations

from enum import Enum, auto

from streamwire.machine import Machine


class LogFile(Enum):
    """State of the log's file."""

    #: There is no file.
    CLOSED = auto()
    OPEN = auto()
    #: The disk rejected the last write; the bytes wait in memory.
    HELD_UP = auto()
    #: The file's content is unknown, and nothing more is written to it.
    BROKEN = auto()


class LogFileEvent(Enum):
    """Events of the log's file."""

    OPENED = auto()
    #: The disk rejected a write, and the file was truncated to its last complete block.
    REFUSED = auto()
    #: The waiting bytes were written.
    CAUGHT_UP = auto()
    #: An fsync failed, or a rejected write could not be undone, or the file no longer matches the data.
    SPOILT = auto()
    #: The file was closed, or the log continues in another file.
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
    # A background fsync that was running when the file broke may fail too.
    (_S.BROKEN, _E.SPOILT): _S.BROKEN,
    (_S.BROKEN, _E.LEFT): _S.CLOSED,
}


def log_file() -> Machine[LogFile, LogFileEvent]:
    """Return a new state machine, in the state CLOSED."""
    return Machine("the log's file", TABLE, LogFile.CLOSED)
