"""What follows an error in a command that nobody foresaw: any exception that is not a CommandError.

A handler that raises one may have changed a part of what it had to change, and what it did cannot be undone in general.
What remains is decided by what the command can have changed:

* It only reads. Nothing is half done: the client gets an error, and everything goes on. Keys that expired under it are
  gone as a whole, and the log hears of that.
* It changes the state of its own client at most (AUTH, SUBSCRIBE, SELECT). The client gets an error and its connection
  is closed: its state goes with it.
* Everything else may have left data, users, settings or files half changed: commands that write, EXEC, and those of
  administration that do more than show something. A :class:`FatalError` goes up to the process, which stops. The
  effects of the command are dropped; those of the commands before it are whole, and belong in the log.
* The same holds for work that is no command: keys that expire, and the serving of clients that wait.
"""

from __future__ import annotations

from engine.core.keyspace.database import Database
from engine.core.table.registry import Command

#: Commands of administration that only show something. (The flag ``admin`` says who may call them, not what they do.)
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
        "latency|history",
        "latency|graph",
        "latency|doctor",
        "latency|histogram",
        "module|list",
    }
)


class FatalError(BaseException):
    """The state in memory may be half changed: no command may run any more. Its cause is the unforeseen error.

    It is no Exception, so that no handler on its way up takes it for an error of its own. ``command`` is the name of
    what failed, ``sizes`` are the bytes of its words (never their values, which may be secrets), ``session_id`` tells
    whose it was; empty and 0 where it was no client's command.
    """

    def __init__(self, command: str = "", argv: list[bytes] | None = None, session_id: int = 0) -> None:
        super().__init__(command)
        self.command = command
        self.sizes = [len(word) for word in argv or ()]
        self.session_id = session_id


def only_reads(command: Command) -> bool:
    """Whether the command changes nothing at all, but for keys that have expired."""
    return "readonly" in command.flags or command.name in SHOWING


def is_fatal(command: Command, error: Exception) -> bool:
    """Whether the data, or what all clients share, may be half changed after ``error`` in the command's handler."""
    if only_reads(command):
        return _came_from_expiry(error)
    return command.writes or "admin" in command.flags or command.name == "exec" or _came_from_expiry(error)


def _came_from_expiry(error: Exception) -> bool:
    """Whether a key was being dropped because its time has come: the one change that a command that reads makes."""
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code is Database.expire.__code__:
            return True
        traceback = traceback.tb_next
    return False
