"""The tests of this folder, which control threads, clocks and the disk, make all transitions of all state machines."""

from __future__ import annotations

from typing import Any

from engine.shell.durability import disk, snapshots
from engine.shell.durability.log import log_switch, rewrite, writer
from streamwire.machine import Machine
from tests.engine.shell.durability.background import (
    test_ending,
    test_loading_again,
    test_rewriting,
    test_saving,
    test_switching,
)
from tests.engine.shell.durability.background.walks import WALKS

#: Importing these modules fills WALKS.
WALKERS = (test_ending, test_saving, test_switching, test_rewriting, test_loading_again)


def test_every_transition_is_made(tmp_path, monkeypatch):
    """The marked tests together make each transition in the table of each state machine."""
    tables: dict[str, Any] = {
        "life": disk.LIFE_TRANSITIONS,
        "log_file": writer.LOG_FILE_TRANSITIONS,
        "rewrite": rewrite.REWRITE_TRANSITIONS,
        "save": snapshots.SAVE_TRANSITIONS,
        "switch": log_switch.SWITCH_TRANSITIONS,
    }
    made: dict[str, set[Any]] = {name: set() for name in tables}
    fire = Machine.fire

    def watched(self: Machine[Any, Any], event: Any) -> Any:
        [name] = [name for name, table in tables.items() if table is self.table]
        move = self.state, event
        new = fire(self, event)
        made[name].add(move)
        return new

    assert {test.__module__ for test, _ in WALKS} == {module.__name__ for module in WALKERS}
    monkeypatch.setattr(Machine, "fire", watched)
    for number, (test, arguments) in enumerate(WALKS):
        directory = tmp_path / str(number)
        directory.mkdir()
        test(directory, **arguments)
    assert {name: set(table) - made[name] for name, table in tables.items()} == {name: set() for name in tables}
