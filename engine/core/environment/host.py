"""What the core asks of the process that it lives in, and what it asks to know of it.

The shell puts its own in place of :class:`WithoutProcess`. Nothing here does I/O. What must not happen while a command
runs is asked for with a method that says "after the reply": the process does it when the reply of the present command
has been encoded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from engine.core.clients.session import Session
from engine.core.protocol.replies import CommandError, Reply
from engine.text.messages import settings


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What only the process knows and INFO and MEMORY tell. Sizes are in bytes, ``cpu_...`` in seconds."""

    pid: int = 0
    #: 40 hexadecimal digits, drawn at the start.
    run_id: str = "0" * 40
    #: The TCP port without TLS.
    port: int = 0
    #: Microseconds since the epoch: now, and when the process started.
    now_us: int = 0
    started_us: int = 0
    os: str = ""
    executable: str = ""
    config_file: str = ""
    python: str = ""
    #: The event loop's library.
    loop: str = ""
    #: Resident memory: now, at most so far, at the start; and what the machine has.
    memory: int = 0
    memory_peak: int = 0
    memory_start: int = 0
    memory_system: int = 0
    cpu_sys: float = 0.0
    cpu_user: float = 0.0
    cpu_sys_children: float = 0.0
    cpu_user_children: float = 0.0
    #: Connections that were accepted, and those of them that were sent away.
    accepted: int = 0
    rejected: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    #: Clients that were dropped because of client-query-buffer-limit and of client-output-buffer-limit.
    query_overruns: int = 0
    output_overruns: int = 0
    #: Clients that were dropped because of maxmemory-clients.
    evicted: int = 0
    #: Clients whose next command a pause holds back.
    held_back: int = 0
    ops_per_sec: int = 0
    kbps_in: float = 0.0
    kbps_out: float = 0.0


class Apart(Protocol):
    """Work on a stack of its own. ``is_over``: it has ended; then ``reply`` is what it gave."""

    reply: Reply
    is_over: bool

    def go(self) -> bool:
        """Begin the work, or go on with it: whether it is over. What it raises is raised here."""

    def pause(self) -> None:
        """Called by the work itself: let whoever called :meth:`go` go on, until it is called again."""


class Host(Protocol):
    """The process around a core."""

    # -- after the reply --------------------------------------------------------------------------------------------

    def after_reply(self, work: Callable[[], None]) -> None:
        """Do ``work`` after the reply of the present command."""

    def close(self, session: Session) -> None:
        """Cut a client off, after the reply."""

    def wake_at_new_time(self, session: Session) -> None:
        """The time at which the blocked session is to be woken has changed: set its timer anew, after the reply."""

    def follow_pause(self) -> None:
        """CLIENT PAUSE or UNPAUSE was called: set its timer anew, after the reply."""

    # -- at once ----------------------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """End the process; the present command is still answered, if it has an answer."""

    def log(self, text: bytes) -> None:
        """Write a line that a client wants into the log."""

    def script_log(self, level: int, text: bytes) -> None:
        """Write a line that a script wants into the log; the level is 0 (debug) to 3 (warning)."""

    def apart(self, work: Callable[[], Reply]) -> Apart | None:
        """Prepare ``work``, which may take long, so that it can be put aside; None where this is not possible."""

    def report_failure(self, command: str, error: Exception) -> None:
        """Log that a command failed with an error that is no reply, and that everything goes on."""

    def sleep(self, seconds: float) -> None:
        """Do nothing, for anybody, for so long."""

    def give_back_memory(self) -> None:
        """Return to the system what the allocators keep for later."""

    def rewrite_configuration(self) -> None:
        """Write the values in force to the configuration file; a CommandError where that is not possible."""

    def facts(self) -> ProcessFacts:
        """What is known of the process now."""

    def reset_statistics(self) -> None:
        """Begin to count anew what :meth:`facts` tells."""


class WithoutProcess:
    """For a core that lives in no process of its own, as in tests: it keeps what whoever runs the core may look at."""

    def __init__(self) -> None:
        #: What is to be done after the reply.
        self.pending: list[Callable[[], None]] = []
        #: What was reported.
        self.failures: list[Exception] = []

    def after_reply(self, work: Callable[[], None]) -> None:
        self.pending.append(work)

    def close(self, session: Session) -> None:
        """The session says that its client is to go."""

    def wake_at_new_time(self, session: Session) -> None:
        """Whoever moves the clock looks at the session."""

    def follow_pause(self) -> None:
        """Nothing is held back."""

    def shut_down(self) -> None:
        """There is nothing to end."""

    def log(self, text: bytes) -> None:
        """There is no log."""

    def script_log(self, level: int, text: bytes) -> None:
        """There is no log."""

    def apart(self, work: Callable[[], Reply]) -> Apart | None:
        """Nobody else is waiting."""
        del work
        return None

    def report_failure(self, command: str, error: Exception) -> None:
        del command
        self.failures.append(error)

    def sleep(self, seconds: float) -> None:
        """Time is what the caller says."""

    def give_back_memory(self) -> None:
        """The process is somebody else's."""

    def rewrite_configuration(self) -> None:
        raise CommandError(settings.NO_CONFIG_FILE)

    def facts(self) -> ProcessFacts:
        return ProcessFacts()

    def reset_statistics(self) -> None:
        """Nothing is counted."""
