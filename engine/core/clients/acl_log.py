"""Recent refusals for ACL LOG and INFO.

A refusal with the reason, context, name and user of one of the ten newest entries is counted in that entry, unless the
entry's last update is more than a minute ago. ``engine.core.commands.server.access`` formats the entries for ACL LOG.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.clients.description import describe
from engine.core.clients.session import Session
from engine.settings.config import Config

#: Maximum time since an entry's last update, in milliseconds, for counting an equal refusal in this entry.
_ALIKE_MS = 60_000
#: Number of newest entries that a new refusal is compared with.
_COMPARED_ENTRIES = 10


@dataclass(slots=True)
class Entry:
    """Equal refusals, counted together. Times are milliseconds since the epoch."""

    number: int
    reason: str
    context: str
    name: bytes
    user: bytes
    created_ms: int
    updated_ms: int
    client: bytes
    count: int = 1


class AclLog:
    """The latest entries, newest first."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._next = 0
        self.entries: list[Entry] = []
        #: Number of refusals by reason.
        self.denied = {"auth": 0, "command": 0, "key": 0, "channel": 0, "tls-cert": 0}

    def add(self, reason: str, session: Session, name: bytes, user: bytes, now: int, *, context: str = "") -> None:
        """Add a refusal.

        ``name``: the refused command, key or channel. For a failed login as ``user``, ``name`` is the command that was
        used to log in; it is empty if a certificate was used.
        """
        self.denied[reason] += 1
        if not context:
            context = "multi" if session.multi is not None or session.in_exec else "toplevel"
        client = describe(session, now)
        kind = (reason, context, name, user)
        for entry in self.entries[:_COMPARED_ENTRIES]:
            alike = (entry.reason, entry.context, entry.name, entry.user) == kind
            if alike and now - entry.updated_ms <= _ALIKE_MS:
                entry.count += 1
                entry.updated_ms, entry.client = now, client
                self.entries.remove(entry)
                self.entries.insert(0, entry)
                return
        limit = self._config.integer("acllog-max-len")
        if limit:
            self.entries.insert(0, Entry(self._next, reason, context, name, user, now, now, client))
            self._next += 1
            del self.entries[limit:]

    def reset(self) -> None:
        """Remove all entries."""
        self.entries.clear()
