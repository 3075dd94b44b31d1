"""Pauses of clients: each has an owner, and ending one does not end another owner's pause."""

from __future__ import annotations

from engine.core.clients.sessions import Pause
from engine.core.keyspace.changes import NEVER
from tests.harness.replay import NOW_US, new_core


def test_unpause_does_not_end_a_failover_s_pause():
    """Commands held by a failover stay held after CLIENT UNPAUSE, and other commands continue."""
    pause = Pause()
    pause.start(0, 1000, holds_all=False, owner="failover")
    pause.start(0, 100, holds_all=True)
    assert (pause.until, pause.all_until, pause.next_end(0), pause.next_end(100)) == (1000, 100, 100, 1000)
    pause.end()
    assert (pause.until, pause.all_until) == (1000, 0)
    pause.end("failover")
    assert (pause.until, pause.next_end(0)) == (0, 0)


def test_keys_expire_again_after_client_pause_during_a_failover():
    """CLIENT PAUSE during a failover suspends the expiry of keys for its own duration, not for the whole failover."""
    core = new_core()
    session = core.open_session(NOW_US)
    core.pause.start(NOW_US // 1000, NEVER, holds_all=False, owner="failover")
    core.changes.hold_expiry("failover", NEVER)
    core.execute(session, [b"SET", b"k", b"v", b"PX", b"1"], NOW_US)
    core.execute(session, [b"CLIENT", b"PAUSE", b"10"], NOW_US)
    core.pause.end("failover")
    core.changes.hold_expiry("failover", 0)
    assert core.expire_due(NOW_US + 9_000) == 0
    assert core.expire_due(NOW_US + 11_000) == 1
