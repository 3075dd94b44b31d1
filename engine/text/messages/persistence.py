"""Messages about snapshots, the log, loading, and writes that are rejected because of the disk."""

from __future__ import annotations

# -- snapshots ----------------------------------------------------------------------------------------------------
NO_PERSISTENCE = b"ERR this server does not store data on disk"
SAVE_RUNNING = b"ERR Background save already in progress"
SAVE_STARTED = b"Background saving started"
SAVE_SCHEDULED = b"Background saving scheduled"
SAVE_BLOCKED = (
    b"ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a "
    b"BGSAVE whenever possible."
)


def save_failed(why: str) -> bytes:
    """Return the error of SAVE, or of a command that saves first, if the file cannot be written."""
    return b"ERR the snapshot could not be written: " + why.encode()


# -- the log ------------------------------------------------------------------------------------------------------
REWRITE_RUNNING = b"ERR Background append only file rewriting already in progress"
REWRITE_STARTED = b"Background append only file rewriting started"
REWRITE_SCHEDULED = b"Background append only file rewriting scheduled"
WAITAOF_ON_REPLICA = (
    b"ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and "
    b"are not propagated."
)
WAITAOF_NO_LOG = b"ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."

# -- rejected writes ----------------------------------------------------------------------------------------------
MISCONF_SNAPSHOT = (
    b"MISCONF The last snapshot could not be written to disk (stop-writes-on-bgsave-error is set). Commands that "
    b"change data are disabled; the server's log contains the reason."
)


def misconf_log(why: str) -> bytes:
    """Return the error for a write command while the append-only file cannot be written."""
    return b"MISCONF Errors writing to the AOF file: " + why.encode()


# -- loading ------------------------------------------------------------------------------------------------------


def load_failed(why: str) -> bytes:
    """Return the error of DEBUG RELOAD and LOADAOF for files that cannot be loaded."""
    return b"ERR " + why.encode()


DEBUG_RELOAD_OPTIONS = b"ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options."

# -- shutdown -----------------------------------------------------------------------------------------------------
SHUTDOWN_FAILED = b"ERR Errors trying to SHUTDOWN. Check logs."
SHUTTING_DOWN = b"ERR the server is shutting down"
NO_SHUTDOWN = b"ERR No shutdown in progress."
