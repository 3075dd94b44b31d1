"""Pauses of clients: each has an owner, and none ends another's."""

from __future__ import annotations

from engine.core.clients.pause import Pause


def test_a_pause_becomes_longer_and_stricter_only():
    """A second pause of the same owner never shortens the first, nor lets go of commands that it holds back."""
    pause = Pause()
    pause.begin(0, 100, holds_all=True)
    pause.begin(50, 80, holds_all=False)
    assert (pause.until, pause.all_until) == (100, 100)
    pause.begin(50, 200, holds_all=False)
    assert (pause.until, pause.all_until) == (200, 200)
    pause.begin(300, 400, holds_all=False)
    assert (pause.until, pause.all_until) == (400, 0)


def test_the_end_of_one_pause_is_not_that_of_another():
    """What a failover holds back stays so after CLIENT UNPAUSE, and what it does not hold back goes on."""
    pause = Pause()
    pause.begin(0, 1000, holds_all=False, owner="failover")
    pause.begin(0, 100, holds_all=True)
    assert (pause.until, pause.all_until, pause.next_end(0), pause.next_end(100)) == (1000, 100, 100, 1000)
    pause.end()
    assert (pause.until, pause.all_until) == (1000, 0)
    pause.end("failover")
    assert (pause.until, pause.next_end(0)) == (0, 0)
