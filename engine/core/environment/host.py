"""The core's interface to its process.

The shell's host extends `Host`. This module does no I/O. Some work must not happen while
a command runs. The methods under "after the reply" defer it until the current command's reply is encoded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.core.clients.session import Session
from engine.core.protocol.replies import CommandError
from engine.text import messages


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """Facts about the process for INFO and MEMORY. Sizes are in bytes, ``cpu_...`` in seconds."""

    pid: int = 0
    #: 40 random hexadecimal digits, chosen at startup.
    run_id: str = "0" * 40
    #: The TCP port without TLS.
    port: int = 0
    #: Current time in microseconds since the epoch.
    now_us: int = 0
    #: Start of the process in microseconds since the epoch.
    started_us: int = 0
    os: str = ""
    executable: str = ""
    config_file: str = ""
    python: str = ""
    #: The event loop's library.
    loop: str = ""
    #: Current resident memory in bytes.
    memory: int = 0
    #: Peak of the resident memory in bytes.
    memory_peak: int = 0
    #: Resident memory at startup in bytes.
    memory_start: int = 0
    #: The machine's memory in bytes.
    memory_system: int = 0
    cpu_sys: float = 0.0
    cpu_user: float = 0.0
    cpu_sys_children: float = 0.0
    cpu_user_children: float = 0.0
    #: Number of accepted connections, including those that were rejected afterwards.
    accepted: int = 0
    #: Number of connections that were rejected after they had been accepted.
    rejected: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    #: Number of clients disconnected because of client-query-buffer-limit.
    query_overruns: int = 0
    #: Number of clients disconnected because of client-output-buffer-limit.
    output_overruns: int = 0
    #: Number of clients whose next command is held back by a pause.
    held_back: int = 0
    ops_per_sec: int = 0
    kbps_in: float = 0.0
    kbps_out: float = 0.0


class Host:
    """The process around a core. This class is the host of a core without a process, as in tests: it records deferred
    work and reported failures, and the caller controls the time.
    """

    def __init__(self) -> None:
        #: Work to do after the reply.
        self.pending: list[Callable[[], None]] = []
        self.failures: list[Exception] = []

    # -- after the reply --------------------------------------------------------------------------------------------

    def after_reply(self, work: Callable[[], None]) -> None:
        """Run ``work`` after the reply."""
        self.pending.append(work)

    def close(self, session: Session) -> None:
        """Close a client's connection after the reply."""

    def wake_at_new_time(self, session: Session) -> None:
        """Reset the timer of a blocked session whose wake time has changed, after the reply."""

    def follow_pause(self) -> None:
        """After a pause has started or ended: check held-back clients soon, and again when the next pause ends."""

    # -- immediately ------------------------------------------------------------------------------------------------

    def flush_effects(self) -> None:
        """Pass the effects so far to the log and the replicas, for example before taking an image with them."""

    def shut_down(self) -> None:
        """End the process; the reply of the current command, if any, is still sent."""

    def report_failure(self, command: str, error: Exception) -> None:  # noqa: ARG002 - nothing is logged
        """Log that a command failed unexpectedly and that the server continues."""
        self.failures.append(error)

    def draw(self, count: int) -> int:  # noqa: ARG002 - nothing is random
        """Return a random number from 0 to ``count`` - 1."""
        return 0

    def sleep(self, seconds: float) -> None:
        """Block the whole process for ``seconds``."""

    def give_back_memory(self) -> None:
        """Release the allocators' unused memory to the operating system."""

    def rewrite_configuration(self) -> None:
        """Write the current values to the configuration file. Raise CommandError on failure."""
        raise CommandError(messages.NO_CONFIG_FILE)

    def facts(self) -> ProcessFacts:
        """Return the current facts about the process."""
        return ProcessFacts()

    def reset_statistics(self) -> None:
        """Reset the counters in ``facts``."""
