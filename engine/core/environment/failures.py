"""Consequences of an unexpected error in a command, that is, of any exception except CommandError.

The handler may have made only some of its changes, and in general they cannot be undone. The consequences depend on the
state that the command can change:

* If the command only reads, nothing is inconsistent: the client receives an error, and the server continues. Keys that
  expired during the command are removed completely, and the log receives these deletions.
* If the command changes only the state of its own client (AUTH, SUBSCRIBE, SELECT), the client receives an error. Its
  connection is closed, which discards its state.
* All other commands (writing commands, EXEC, and administrative commands that change something) may have left data,
  users, settings or files inconsistent. A ``FatalError`` is raised to the process, which stops. The command's effects
  are dropped. The effects of earlier commands are complete and belong in the log.
* Errors in the expiry of a key raise a ``FatalError`` even if the command only reads.

Exceptions outside a handler, such as in the search for blocked clients to serve, reach the process unchanged. The
process stops after any exception from the core.
"""

from __future__ import annotations

from engine.core.keyspace.database import Database
from engine.core.table.registry import EXECUTING, Command

#: Administrative commands that change nothing. The flag ``admin`` concerns only permissions, not effects.
SHOWING = frozenset(
    {
        "acl|getuser",
        "acl|list",
        "acl|users",
        "acl|dryrun",
        "client|list",
        "config|get",
        "slowlog|get",
        "slowlog|len",
        "latency|latest",
        "latency|histogram",
        "module|list",
    }
)


class FatalError(BaseException):
    """The state in memory may be inconsistent, so no more commands may run. ``__cause__`` is the unexpected error.

    This is a BaseException, so that ``except Exception`` does not catch it. ``command`` is the name of the failed
    command, ``sizes`` are the lengths of its words (whose contents may be secret), and ``session_id`` is the client's
    session. If the error did not occur in a client's command, ``command`` and ``sizes`` are empty, and ``session_id``
    is 0.
    """

    def __init__(self, command: str = "", argv: list[bytes] | None = None, session_id: int = 0) -> None:
        super().__init__(command)
        self.command = command
        self.sizes = [len(word) for word in argv or ()]
        self.session_id = session_id


def only_reads(command: Command) -> bool:
    """Return whether the command changes nothing except expired keys."""
    return "readonly" in command.flags or command.name in SHOWING


def is_fatal(command: Command, error: Exception) -> bool:
    """Return whether data or shared state may be inconsistent after ``error`` in the command's handler."""
    if only_reads(command):
        return _came_from_expiry(error)
    return command.writes or "admin" in command.flags or command.name in EXECUTING or _came_from_expiry(error)


def _came_from_expiry(error: Exception) -> bool:
    """Return whether ``error`` occurred in the expiry of a key, the only change that a read-only command makes."""
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code is Database.expire.__code__:
            return True
        traceback = traceback.tb_next
    return False
