"""Channels: their subscribers, and the keyspace events published to them.

Subscriptions are stored twice, by channel and in the session. So the cost of publishing depends only on the number of
receivers and of distinct patterns, and the cost of closing a session only on its own subscriptions.
"""

from __future__ import annotations

from engine.core.clients.session import Outbox, Session
from engine.core.keyspace.changes import Changes
from engine.core.protocol.replies import Push
from engine.settings.config import Config
from engine.settings.kinds import Events
from engine.text.globs import Matcher, matcher


class PubSub:
    """All subscriptions of one core. Messages go to ``outbox``; keyspace events arrive through ``changes``."""

    def __init__(self, config: Config, changes: Changes, outbox: Outbox) -> None:
        self._config = config
        self._changes = changes
        self._outbox = outbox
        self.channels: dict[bytes, dict[Session, None]] = {}
        self.patterns: dict[bytes, dict[Session, None]] = {}
        self._matchers: dict[bytes, Matcher] = {}
        #: The letters of notify-keyspace-events, with ``A`` expanded; empty if no events are published.
        self.keyspace_events: frozenset[str] = frozenset()
        config.on_change("notify-keyspace-events", self._configure)
        self._configure()

    def _configure(self) -> None:
        events = self._config.value("notify-keyspace-events", Events)
        self.keyspace_events = events.letters if events.letters & {"K", "E"} else frozenset()
        self._changes.on_event = self.keyspace_event if self.keyspace_events else None

    def subscribe(self, session: Session, channel: bytes) -> None:
        """Subscribe the session to ``channel``."""
        self.channels.setdefault(channel, {})[session] = None
        session.channels.add(channel)
        _count(session)

    def subscribe_pattern(self, session: Session, pattern: bytes) -> None:
        """Subscribe the session to all channels that match ``pattern``."""
        if pattern not in self.patterns:
            self._matchers[pattern] = matcher(pattern)
        self.patterns.setdefault(pattern, {})[session] = None
        session.patterns.add(pattern)
        _count(session)

    def unsubscribe(self, session: Session, channel: bytes) -> None:
        """Unsubscribe the session from ``channel``."""
        session.channels.discard(channel)
        self._leave(self.channels, channel, session)

    def unsubscribe_pattern(self, session: Session, pattern: bytes) -> None:
        """Unsubscribe the session from ``pattern``."""
        session.patterns.discard(pattern)
        self._leave(self.patterns, pattern, session)
        if pattern not in self.patterns:
            self._matchers.pop(pattern, None)

    @staticmethod
    def _leave(table: dict[bytes, dict[Session, None]], name: bytes, session: Session) -> None:
        listeners = table.get(name)
        if listeners is not None:
            listeners.pop(session, None)
            if not listeners:
                del table[name]
        _count(session)

    def drop(self, session: Session) -> None:
        """Remove all subscriptions of the session."""
        for channel in list(session.channels):
            self.unsubscribe(session, channel)
        for pattern in list(session.patterns):
            self.unsubscribe_pattern(session, pattern)

    def publish(self, channel: bytes, message: bytes) -> int:
        """Send ``message`` to subscribers of ``channel`` and of matching patterns; return the number of deliveries."""
        outbox = self._outbox
        before = len(outbox)
        for session in self.channels.get(channel, ()):
            outbox.append((session, Push([b"message", channel, message])))
        for pattern, matches in self._matchers.items():
            if matches(channel):
                for session in self.patterns[pattern]:
                    outbox.append((session, Push([b"pmessage", pattern, channel, message])))
        return len(outbox) - before

    def keyspace_event(self, kind: str, event: bytes, key: bytes, db: int) -> None:
        """Publish an event of class ``kind`` on the channels that notify-keyspace-events enables."""
        events = self.keyspace_events
        if kind in events:
            if "K" in events:
                self.publish(b"__keyspace@%d__:%b" % (db, key), event)
            if "E" in events:
                self.publish(b"__keyevent@%d__:%b" % (db, event), key)


def _count(session: Session) -> None:
    session.subscriptions = len(session.channels) + len(session.patterns)
