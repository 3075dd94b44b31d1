"""The directive ``appendonly``: switching the log on and off, at startup and by CONFIG SET.

After CONFIG SET has returned OK, the log stays enabled: if its first base cannot be written, the write is retried.

                     OPENED (at the start)
      ┌────────────────────────────────────────────┐
      │                                            v
      │  SWITCHED_ON          BASE_WRITTEN
    OFF ────────────> FIRST_BASE ───────────────> ON
     ^                 │      ^                    │
     │                 │      │ TRIED_AGAIN        │
     │     BASE_FAILED └──> RETRYING               │
     │                                             │
     └─────────────────────────────────────────────┘
        SWITCHED_OFF (from FIRST_BASE, RETRYING, ON)

CONFIG SET appendonly yes returns OK when the writing of the first base has started. The base contains all data of that
moment. Later effects are kept in memory until the base is complete, and then written to an increment. If the base
cannot be written, each retry writes the data of its own time. If the process is asked to exit before the log is ON, the
base is written first.
"""

from __future__ import annotations

from enum import Enum, auto

from engine.settings.config import Config
from engine.settings.kinds import ConfigError
from engine.shell.durability.log.rewrite import Rewrites
from engine.shell.durability.log.writer import Log
from engine.shell.durability.ownership import Ownership
from engine.shell.observation.log_lines import LOG
from streamwire.machine import Machine


class Switch(Enum):
    """Whether there is a log."""

    OFF = auto()
    #: The log is enabled, and its first base is being written.
    FIRST_BASE = auto()
    #: The log is enabled. Writing its first base has failed, and will be retried.
    RETRYING = auto()
    #: The log is in use: effects are logged before their replies are sent.
    ON = auto()


class SwitchEvent(Enum):
    """Events of the switch."""

    #: The engine starts with a log.
    OPENED = auto()
    SWITCHED_ON = auto()
    SWITCHED_OFF = auto()
    BASE_WRITTEN = auto()
    BASE_FAILED = auto()
    TRIED_AGAIN = auto()


_S, _E = Switch, SwitchEvent
SWITCH_TRANSITIONS = {
    (_S.OFF, _E.OPENED): _S.ON,
    (_S.OFF, _E.SWITCHED_ON): _S.FIRST_BASE,
    (_S.FIRST_BASE, _E.BASE_WRITTEN): _S.ON,
    (_S.FIRST_BASE, _E.BASE_FAILED): _S.RETRYING,
    (_S.FIRST_BASE, _E.SWITCHED_OFF): _S.OFF,
    (_S.RETRYING, _E.TRIED_AGAIN): _S.FIRST_BASE,
    (_S.RETRYING, _E.SWITCHED_OFF): _S.OFF,
    (_S.ON, _E.SWITCHED_OFF): _S.OFF,
}


class LogSwitch:
    """The on/off switch of one log."""

    def __init__(self, config: Config, ownership: Ownership, rewrites: Rewrites, log: Log) -> None:
        self._config = config
        self._ownership = ownership
        self._rewrites = rewrites
        self._log = log
        self._machine = Machine("the log's switch", SWITCH_TRANSITIONS, Switch.OFF)

    @property
    def is_on(self) -> bool:
        """Whether effects are being logged."""
        return self._machine.state is Switch.ON

    @property
    def is_wanted(self) -> bool:
        """Whether a log is enabled: it is on, or will be on when its first base is written."""
        return self._machine.state is not Switch.OFF

    @property
    def must_retry(self) -> bool:
        """Whether the first base could not be written and must be retried."""
        return self._machine.state is Switch.RETRYING

    def opened(self) -> None:
        """Record that the engine has started with an open log."""
        self._machine.fire(SwitchEvent.OPENED)

    # -- CONFIG SET ---------------------------------------------------------------------------------------------------

    def differs(self) -> bool:
        """Return whether the directive differs from the state of the log."""
        return self._config.flag("appendonly") is not self.is_wanted

    def turn_on(self) -> None:
        """Start writing the first base. Raises ConfigError if that is not possible; the log then stays off."""
        if not self._ownership.acquire():
            raise ConfigError(self._ownership.refusal)
        # A rewrite that was requested without a log cannot be continued: it lacks the effects since its image.
        self._rewrites.abandon()
        self._machine.fire(SwitchEvent.SWITCHED_ON)
        try:
            self._rewrites.start(keeps_log=True)
        except OSError as error:
            self._machine.fire(SwitchEvent.SWITCHED_OFF)
            raise ConfigError(f"the append-only file cannot be written: {error.strerror or error}") from None

    def turn_off(self) -> None:
        """Write the effects so far, as far as the disk allows, and close the log."""
        self._rewrites.abandon()
        try:
            self._log.close()
        except OSError as error:
            LOG.error("the last part of the append-only file was not written: %s", error)
        self._machine.fire(SwitchEvent.SWITCHED_OFF)

    # -- replacing all data -------------------------------------------------------------------------------------------

    def suspend(self) -> None:
        """Switch the log off while all data is being replaced, until `resume` is called."""
        self.turn_off()

    def resume(self) -> None:
        """Start writing the base of a log of the new data; a failure is retried."""
        self._rewrites.abandon()
        self._machine.fire(SwitchEvent.SWITCHED_ON)
        self.start_rewrite()

    # -- rewriting ----------------------------------------------------------------------------------------------------

    def start_rewrite(self) -> None:
        """Start a rewrite, which writes the first base if that is still missing. If the rewrite cannot start, a missing
        first base is retried later; other rewrites are skipped.
        """
        if self.must_retry:
            self._machine.fire(SwitchEvent.TRIED_AGAIN)
        try:
            self._rewrites.start(keeps_log=self.is_wanted)
        except OSError:
            self.note_rewritten(good=False)

    def rewrite_now(self) -> None:
        """Rewrite the log synchronously. This writes a missing first base, too. Raises OSError on failure."""
        if self.must_retry:
            self._machine.fire(SwitchEvent.TRIED_AGAIN)
        try:
            self._rewrites.write_now()
        except Exception:
            self.note_rewritten(good=False)
            raise
        self.note_rewritten(good=True)

    def note_rewritten(self, *, good: bool) -> None:
        """Record that a rewrite has ended, and whether it succeeded."""
        state = self._machine.state
        if state is Switch.FIRST_BASE:
            self._machine.fire(SwitchEvent.BASE_WRITTEN if good else SwitchEvent.BASE_FAILED)
            if good:
                LOG.info("the append-only file is in use")
        elif state is Switch.OFF and good:
            # The rewrite was requested while the log was off: keep the new files, but do not continue them.
            self._log.close()
