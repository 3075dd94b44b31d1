"""Reasons to reject writes and reasons to record effects, each with independent owners."""

from __future__ import annotations

import pytest

from engine.core.admission import Refusal
from engine.core.dispatch import Core
from engine.core.protocol.replies import OK, CommandError
from engine.settings.config import Config

SET, GET, PING = [b"SET", b"k", b"v"], [b"GET", b"k"], [b"PING"]


@pytest.fixture
def core() -> Core:
    return Core(Config())


def refused(core: Core, argv: list[bytes]) -> bytes:
    reply = core.execute(core.open_session(1), argv, 1)
    return reply.text if isinstance(reply, CommandError) else b""


def test_the_first_reason_is_reported_until_all_are_withdrawn(core):
    """Writes are rejected with the error of the first reason in force, and accepted when the last one is withdrawn."""
    core.admission.refuse(Refusal.READONLY, b"READONLY x")
    core.admission.refuse(Refusal.DISK, b"MISCONF x")
    core.admission.refuse(Refusal.REPLICAS, b"NOREPLICAS x")
    for why, error in (
        (Refusal.DISK, b"MISCONF x"),
        (Refusal.REPLICAS, b"NOREPLICAS x"),
        (Refusal.READONLY, b"READONLY x"),
    ):
        assert refused(core, SET) == error
        assert refused(core, PING) == (error if why is Refusal.DISK else b"")
        assert refused(core, GET) == b""
        core.admission.refuse(why, b"")
    assert refused(core, SET) == b""


def test_commands_are_rejected_while_data_is_missing_or_loaded(core):
    """While data is stale or being loaded, commands are rejected by their flags, also in a transaction."""
    session = core.open_session(1)
    assert core.execute(session, [b"MULTI"], 1) == OK
    core.execute(session, GET, 1)
    for why, refused_ones in (
        (Refusal.STALE, {b"GET", b"PING"}),
        (Refusal.LOADING, {b"REPLICAOF"}),
    ):
        core.admission.refuse(why, b"WAIT x")
        for argv in (GET, PING, [b"REPLICAOF", b"NO", b"ONE"], [b"INFO", b"server"]):
            assert refused(core, argv) == (b"WAIT x" if argv[0] in refused_ones else b""), (why, argv)
        core.admission.refuse(why, b"")
    core.admission.refuse(Refusal.STALE, b"MASTERDOWN x")
    reply = core.execute(session, [b"EXEC"], 1)
    assert isinstance(reply, CommandError)
    assert b"MASTERDOWN x" in reply.text


def test_effects_are_recorded_while_any_owner_needs_them(core):
    """Recording ends with its last owner, and is suspended for all while data is loaded."""
    changes = core.changes
    changes.record_for("log", True)
    changes.record_for("replicas", True)
    changes.record_for("log", False)
    assert changes.recording
    changes.hold_recording(True)
    changes.record_for("log", True)
    assert not changes.recording
    changes.hold_recording(False)
    assert changes.recording
    changes.record_for("log", False)
    changes.record_for("replicas", False)
    assert not changes.recording
