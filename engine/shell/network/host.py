"""Services of the process for the core: `engine.core.environment.host.Host`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from engine.core.clients.session import Session
from engine.core.environment.host import ProcessFacts
from engine.core.protocol.replies import CommandError
from engine.settings.config import Config
from engine.shell.clock import now_us
from engine.shell.network.runner import Runner
from engine.shell.observation.log_lines import LOG
from engine.shell.observation.process_facts import Facts
from engine.text import messages


class ServerHost:
    """Host of one server's core. ``stop`` makes the process exit."""

    def __init__(self, config: Config, runner: Runner, facts: Facts, stop: Callable[[], None]) -> None:
        self._config = config
        self._runner = runner
        self._facts = facts
        self._stop = stop

    # -- work after the reply -----------------------------------------------------------------------------------------

    def after_reply(self, work: Callable[[], None]) -> None:
        self._runner.after_reply.append(work)

    def close(self, session: Session) -> None:
        self.after_reply(lambda: self._runner.abort(session))

    def wake_at_new_time(self, session: Session) -> None:
        self.after_reply(lambda: self._runner.timers.follow_session(session))

    def follow_pause(self) -> None:
        # Not after the reply, because a pause may also end while no command runs.
        self._runner.timers.follow_pause()

    # -- immediate work -----------------------------------------------------------------------------------------------

    def flush_effects(self) -> None:
        self._runner.flush_effects()

    def wake(self, sessions: Iterable[Session]) -> None:
        for session in sessions:
            self._runner.core.wake(session, now_us())
        self._runner.settle()

    def shut_down(self) -> None:
        LOG.info("shutting down (SHUTDOWN or signal)")
        self._stop()

    def report_failure(self, command: str, error: Exception) -> None:
        LOG.error("unexpected error in the command %s, returning an error to its client", command, exc_info=error)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def give_back_memory(self) -> None:
        self._runner.give_back_memory()

    def rewrite_configuration(self) -> None:
        path = self._config.file
        if path is None:
            raise CommandError(messages.NO_CONFIG_FILE)
        new = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            new.write_bytes(self._config.rewritten(path.read_bytes()))
            new.replace(path)
        except OSError as error:
            raise CommandError(messages.rewrite_failed(os.strerror(error.errno or 0))) from None

    def facts(self) -> ProcessFacts:
        return replace(self._facts.collect(), held_back=self._runner.held_back())

    def reset_statistics(self) -> None:
        self._facts.reset()
