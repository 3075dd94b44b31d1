"""XREADGROUP with CLAIM and BLOCK: when a reader that waits for idle entries checks again."""

from __future__ import annotations

import pytest

from engine.core.protocol.replies import BLOCKED, NIL_ARRAY
from tests.harness.replay import NOW_US, new_core


def scene():
    """Return a core, the session of a reader, and a function that runs commands, of another client by default."""
    core = new_core()
    session, reader = core.open_session(NOW_US), core.open_session(NOW_US)

    def run(text, who=session, now=NOW_US):
        return core.execute(who, text.encode().split(), now)

    return core, reader, run


@pytest.mark.parametrize("min_idle", [0, 1, 10, 500])
@pytest.mark.parametrize("given_back", [False, True])
def test_a_deleted_pending_entry_is_checked_rarely(min_idle, given_back):
    """A reader that waits for a deleted pending entry checks it at most eleven times per second, until its timeout."""
    core, reader, run = scene()
    for text in ("XADD s 1-0 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g a STREAMS s >", "XDEL s 1-0"):
        run(text)
    if given_back:
        assert run("XNACK s g FAIL IDS 1 1-0") == 1
    now, looks, end = NOW_US + 1_000_000, 0, NOW_US + 6_000_000
    assert run(f"XREADGROUP GROUP g b CLAIM {min_idle} BLOCK 5000 STREAMS s >", reader, now) is BLOCKED
    while reader.waiter is not None and now < end + 1000 and looks < 1000:
        now = reader.waiter.wake_at * 1000
        core.wake(reader, now)
        looks += 1
    assert core.outbox == [(reader, NIL_ARRAY)]
    assert now == end
    assert looks <= 55


def test_an_entry_is_claimed_once_it_is_idle_for_long_enough():
    """A waiting reader claims a pending entry once it is idle for long enough, even if an earlier entry was deleted."""
    core, reader, run = scene()
    for text in ("XADD s 1-0 f v", "XADD s 2-0 f v", "XGROUP CREATE s g 0"):
        run(text)
    run("XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    run("XDEL s 1-0")
    run("XREADGROUP GROUP g a COUNT 1 STREAMS s >", now=NOW_US + 700_000)
    assert run("XREADGROUP GROUP g b CLAIM 500 BLOCK 0 STREAMS s >", reader, NOW_US + 800_000) is BLOCKED
    assert reader.waiter.wake_at == NOW_US // 1000 + 700 + 501
    core.wake(reader, reader.waiter.wake_at * 1000)
    assert reader.waiter is None
    assert [entry[0] for entry in core.outbox] == [reader]


def test_a_pause_holds_a_claim_back():
    """A waiting reader claims nothing during CLIENT PAUSE WRITE, checks rarely, and claims after the pause."""
    core, reader, run = scene()
    for text in ("XADD s 1-0 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g a STREAMS s >"):
        run(text)
    assert run("XREADGROUP GROUP g b CLAIM 500 BLOCK 0 STREAMS s >", reader) is BLOCKED
    run("CLIENT PAUSE 2000 WRITE")
    core.changes.effects.clear()
    now, looks = NOW_US, 0
    while now < NOW_US + 1_900_000:
        now = reader.waiter.wake_at * 1000
        core.wake(reader, now)
        looks += 1
        assert core.changes.effects == []
    assert looks <= 20
    core.pause.clear()
    core.wake(reader, NOW_US + 2_000_000)
    assert reader.waiter is None
