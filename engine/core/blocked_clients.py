"""Blocked clients: retries of their commands, their timeouts, and their replies.

When a key is signalled, the commands blocked on it run again (`Waiter.argv`), in the order in which their clients
blocked. Each command either returns a reply or keeps its position in the queue. Replies go to the outbox.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.core.admission import look_up
from engine.core.clients.session import Session, Waiter
from engine.core.environment.context import Context
from engine.core.environment.failures import FatalError
from engine.core.protocol.replies import BLOCKED, Reply
from engine.core.streams.stream import Stream
from engine.core.table.registry import Command

#: Milliseconds after which a claim checks again whether a pause has ended.
_PAUSE_CHECK_MS = 100
#: Runs a blocked command again; returns the reply, or BLOCKED if the client keeps waiting.
RerunCommand = Callable[[Session, Command, list[bytes], Waiter], Reply]


class Blocked:
    """The blocked clients of one core. ``run`` runs their commands again."""

    __slots__ = ("_ctx", "_run")

    def __init__(self, ctx: Context, run: RerunCommand) -> None:
        self._ctx = ctx
        self._run = run

    def serve(self) -> None:
        """Run the commands of clients whose keys were signalled: key by key, and in the order of blocking per key.

        Keys with a client that must wait for a divided command remain signalled.
        """
        changes, postponed = self._ctx.changes, dict[tuple[int, bytes], bool]()
        while changes.ready:
            signalled, changes.ready = changes.ready, {}
            for pair, replaced in signalled.items():
                if not self._serve_key(*pair, replaced=replaced):
                    postponed[pair] = replaced
        changes.ready = postponed

    def _serve_key(self, index: int, key: bytes, *, replaced: bool) -> bool:
        """Run the commands of clients that wait for a signalled key; return False if one must wait longer."""
        db = self._ctx.databases[index]
        nothing_for: set[bytes | None] = set()
        waiters: list[Waiter] = db.waiting.waiting_for(key)
        for waiter in waiters:
            if waiter.session.waiter is not waiter or waiter.interest in nothing_for:
                continue
            if self._is_held(waiter):
                return False
            if _concerns(waiter, key, db.get(key), replaced=replaced):
                self._retry(waiter)
            elif waiter.interest is not None:
                nothing_for.add(waiter.interest)
        return True

    def _is_held(self, waiter: Waiter) -> bool:
        """Return whether the waiter's command must wait for a divided command."""
        divided = self._ctx.divided
        return bool(divided.running) and divided.must_wait(waiter.session, waiter.argv) is not None

    def wake(self, session: Session) -> None:
        """Run the session's command again, or time it out. The shell calls this at ``Waiter.wake_at``.

        If the command keeps waiting, it may set a new wake time. If it must wait for a divided command, the wake time
        does not change, so that the shell calls this again.
        """
        changes = self._ctx.changes
        waiter = session.waiter
        if waiter is None:
            return
        if waiter.deadline is not None and waiter.deadline <= changes.now:
            self._ctx.sessions.time_out(session)
        elif self._ctx.pause.until > changes.now:
            # Only a claim of XREADGROUP wakes a client at a time, and a pause holds it back like any other write.
            waiter.retry_at = changes.now + _PAUSE_CHECK_MS
        elif not self._is_held(waiter):
            self._retry(waiter)
            if changes.ready:
                self.serve()

    def _retry(self, waiter: Waiter) -> None:
        ctx, session = self._ctx, waiter.session
        changes = ctx.changes
        first = len(changes.effects)
        wake_at = waiter.wake_at
        try:
            reply = self._run(session, look_up(waiter.argv), waiter.argv, waiter)
        except FatalError:
            del changes.effects[first:]
            raise
        if len(changes.effects) - first > 1:
            changes.seal_effects(first)
        if reply is not BLOCKED:
            ctx.sessions.end_wait(session, reply)
        elif waiter.wake_at != wake_at:
            ctx.host.wake_at_new_time(session)


def _concerns(waiter: Waiter, key: bytes, value: Any, *, replaced: bool) -> bool:
    """Return whether the waiter's command must run again, given the current ``value`` of the signalled key.

    ``replaced``: whether the value was replaced since the client blocked.
    """
    if type(value) is Stream:
        return replaced or waiter.has_news is None or waiter.has_news(key, value)
    return waiter.on_delete
