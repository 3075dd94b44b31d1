"""The directive ``appendonly``: the log switched on and off while the engine runs.

The states are in :mod:`engine.shell.durability.states.switch`. What CONFIG SET has answered OK to holds until it is
changed: a first base that cannot be written is tried again until it can.
"""

from __future__ import annotations

from engine.settings.config import Config
from engine.settings.kinds import ConfigError
from engine.shell.durability.log.rewriting import Rewrites
from engine.shell.durability.log.writer import Log
from engine.shell.durability.ownership import Ownership
from engine.shell.durability.states.switch import Switch, SwitchEvent, switch
from engine.shell.observation.reporting import LOG


class LogSwitch:
    """The switch of one log."""

    def __init__(self, config: Config, ownership: Ownership, rewrites: Rewrites, log: Log) -> None:
        self._config = config
        self._ownership = ownership
        self._rewrites = rewrites
        self._log = log
        self._machine = switch()

    @property
    def is_on(self) -> bool:
        """Whether what happens is in the log."""
        return self._machine.state is Switch.ON

    @property
    def is_wanted(self) -> bool:
        """Whether there is to be a log: it is on, or will be when its first base is written."""
        return self._machine.state is not Switch.OFF

    @property
    def must_retry(self) -> bool:
        """Whether the first base could not be written and must be tried again."""
        return self._machine.state is Switch.RETRYING

    def opened(self) -> None:
        """The engine starts with a log, which is open."""
        self._machine.fire(SwitchEvent.OPENED)

    # -- CONFIG SET ---------------------------------------------------------------------------------------------------

    def differs(self) -> bool:
        """Whether the configuration wants something else."""
        return self._config.flag("appendonly") is not self.is_wanted

    def turn_on(self) -> None:
        """Begin to write the first base. A ConfigError where that is not possible: the log stays off."""
        if not self._ownership.acquire():
            raise ConfigError(self._ownership.refusal)
        # A rewrite that was asked for without a log knows nothing of what has happened since.
        self._rewrites.abandon()
        self._machine.fire(SwitchEvent.SWITCHED_ON)
        try:
            self._rewrites.begin(keeps_log=True)
        except OSError as error:
            self._machine.fire(SwitchEvent.SWITCHED_OFF)
            raise ConfigError(f"the append-only file cannot be written: {error.strerror or error}") from None

    def turn_off(self) -> None:
        """End the log: what has happened so far is in it, as far as the disk lets us, and nothing more."""
        self._rewrites.abandon()
        try:
            self._log.close()
        except OSError as error:
            LOG.error("the end of the append-only file was not written: %s", error)
        self._machine.fire(SwitchEvent.SWITCHED_OFF)

    # -- other data -------------------------------------------------------------------------------------------------

    def suspend(self) -> None:
        """All data are replaced: there is no log until :meth:`resume`."""
        self.turn_off()

    def resume(self) -> None:
        """Begin to write the base of a log of the new data; where that fails it is tried again."""
        self._rewrites.abandon()
        self._machine.fire(SwitchEvent.SWITCHED_ON)
        self.begin_rewrite()

    # -- rewriting ----------------------------------------------------------------------------------------------------

    def begin_rewrite(self) -> None:
        """Begin a rewrite, which writes the first base where that is still to be done. Where it cannot begin it is
        tried again, or was not important.
        """
        if self.must_retry:
            self._machine.fire(SwitchEvent.TRIED_AGAIN)
        try:
            self._rewrites.begin(keeps_log=self.is_wanted)
        except OSError:
            self.rewritten(good=False)

    def rewrite_now(self) -> None:
        """Rewrite the log at once; it is on then. An OSError where that is not possible."""
        if self.must_retry:
            self._machine.fire(SwitchEvent.TRIED_AGAIN)
        try:
            self._rewrites.write_now()
        except Exception:
            self.rewritten(good=False)
            raise
        self.rewritten(good=True)

    def rewritten(self, *, good: bool) -> None:
        """A rewrite has ended."""
        state = self._machine.state
        if state is Switch.FIRST_BASE:
            self._machine.fire(SwitchEvent.BASE_WRITTEN if good else SwitchEvent.BASE_FAILED)
            if good:
                LOG.info("the append-only file is in use")
        elif state is Switch.OFF and good:
            # It was asked for without a log: the files are there, and nothing is added to them.
            self._log.close()
