"""Growth of commands on the core: four times as many arguments cost about four times as much."""

from __future__ import annotations

import gc
import time

import pytest

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.protocol.replies import BLOCKED, NO_REPLY, Steps
from engine.settings.config import Config
from engine.wire.encode import encoded
from tests.growth.cases import Case, Words, cases

#: Numbers of arguments; a quadratic command needs 20 milliseconds and more for the greater one.
_FEW, _MANY = 250, 1_000
#: Seconds below which a result is accepted, and maximum growth for four times the arguments (quadratic: 16).
_FAST, _GROWTH = 0.01, 8
_NOW_US = 1_700_000_000_000_000


def on_core(case: Case, n: int) -> float:
    """Return the seconds that a command takes on a new core: all its steps, its reply, and closing its session."""
    core = Core(Config())
    core.changes.recording = True
    core.allow_steps()
    session = core.open_session(_NOW_US)
    for words in case.prepare(n):
        _run(core, session, words)
    words = case.command(n)
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        _run(core, session, words)
        core.close_session(session)
        return time.process_time() - began
    finally:
        gc.enable()


def _run(core: Core, session: Session, words: Words) -> None:
    reply = core.execute(session, words, _NOW_US)
    while type(reply) is Steps:
        reply = core.go_on(session, reply, _NOW_US)
    if reply is not BLOCKED and reply is not NO_REPLY:
        encoded(reply, 2)
    core.outbox.clear()
    core.changes.effects.clear()


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name.replace(" ", "-"))
def test_the_cost_is_proportional_to_the_number_of_arguments(case: Case) -> None:
    """A command whose repeated argument is given four times as often takes less than eight times as long."""
    many = on_core(case, _MANY)
    few = on_core(case, _FEW) if many > _FAST else many
    for _ in range(2):  # Another process may have disturbed the measurement.
        if many > max(_FAST, _GROWTH * few):
            few, many = min(few, on_core(case, _FEW)), min(many, on_core(case, _MANY))
    assert many <= max(_FAST, _GROWTH * few), (
        f"{_FEW:,} arguments: {few * 1000:.1f} ms, {_MANY:,}: {many * 1000:.1f} ms"
    )
