"""Limits of commands that would take too much time or memory."""

from __future__ import annotations

from engine.core.protocol.replies import CommandError
from tests.harness.replay import NOW_US, new_core


def answer(*lines: str):
    """Return the last command's reply, or an error's text."""
    core = new_core()
    session = core.open_session(NOW_US)
    for line in lines:
        reply = core.execute(session, [word.encode() for word in line.split()], NOW_US)
    return reply.text.decode() if isinstance(reply, CommandError) else reply


def test_hrandfield_draws_at_most_a_million_fields():
    """HRANDFIELD rejects a count of more than a million draws as out of range."""
    assert answer("HSET h a 1", "HRANDFIELD h -1000000").size == 1_000_000
    for count in (-1_000_001, -999_999_999, -(1 << 63) + 1):
        assert "out of range" in answer("HSET h a 1", f"HRANDFIELD h {count}")
    assert answer("HSET h a 1", "HRANDFIELD h 999999999") == [b"a"]
