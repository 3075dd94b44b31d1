"""Limits for clients: their number, their unprocessed input, and their unread output."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.clients.session import Session
from engine.settings.config import Config
from engine.settings.kinds import OutputLimit

#: Maximum number of bytes of commands and replies before login. A command of ten words of 16 KiB fits.
BEFORE_LOGIN = 256 << 10
#: Limit of unprocessed input before login, in bytes: the commands behind a login.
_WAITING_BEFORE_LOGIN = 1 << 20


class Limits:
    """Limits that the directives set. ``on_change`` is called after a change."""

    __slots__ = ("_backlog", "_config", "_output", "_query", "max_bulk", "max_clients", "on_change")

    def __init__(self, config: Config) -> None:
        self._config = config
        self._output: dict[bytes, OutputLimit] = {}
        self._query = self._backlog = 0
        #: Maximum length of a bulk string of a request in bytes.
        self.max_bulk = 0
        self.max_clients = 0
        self.on_change: Callable[[], None] = lambda: None
        for name in (
            "proto-max-bulk-len",
            "client-query-buffer-limit",
            "maxclients",
            "client-output-buffer-limit",
            "repl-backlog-size",
        ):
            config.on_change(name, self._follow)
        self._follow()

    def _follow(self) -> None:
        config = self._config
        self.max_bulk = config.integer("proto-max-bulk-len")
        self.max_clients = config.integer("maxclients")
        self._query = config.integer("client-query-buffer-limit")
        self._backlog = config.integer("repl-backlog-size")
        self._output = config.value("client-output-buffer-limit", dict)
        self.on_change()

    def query(self, session: Session) -> int:
        """Return the maximum number of bytes of unprocessed input."""
        return self._query if session.authenticated else min(self._query, _WAITING_BEFORE_LOGIN)

    def output(self, session: Session) -> OutputLimit:
        """Return the limit for the bytes of unread replies and messages."""
        if session.is_replica:
            # The limits are at least the size of the backlog: lower limits would only cause full synchronisations.
            hard, soft, seconds = self._output[b"slave"]
            return OutputLimit(hard and max(hard, self._backlog), soft and max(soft, self._backlog), seconds)
        return self._output[b"pubsub" if session.subscriptions else b"normal"]
