"""The state machines of the shell: every transition of every table works, and all other events raise."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import pytest

from engine.shell.durability.states import life, log_file, rewrite, save, switch
from engine.shell.housekeeping import cold_packer
from engine.shell.replication import failover, shutdown
from engine.shell.replication.master import sync_states as replica_states
from engine.shell.replication.replica import link_states
from streamwire.machine import IllegalTransitionError, Machine

Table = Mapping[tuple[Any, Any], Any]
MACHINES: dict[str, tuple[Table, Callable[[], Machine[Any, Any]], type[Enum], type[Enum]]] = {
    "life": (life.TABLE, life.life, life.Life, life.LifeEvent),
    "log_file": (log_file.TABLE, log_file.log_file, log_file.LogFile, log_file.LogFileEvent),
    "rewrite": (rewrite.TABLE, rewrite.rewrite, rewrite.Rewrite, rewrite.RewriteEvent),
    "save": (save.TABLE, save.save, save.Save, save.SaveEvent),
    "switch": (switch.TABLE, switch.switch, switch.Switch, switch.SwitchEvent),
    "replica": (replica_states.TABLE, replica_states.sync, replica_states.Sync, replica_states.SyncEvent),
    "link": (link_states.TABLE, link_states.link, link_states.Link, link_states.LinkEvent),
    "failover": (failover.TABLE, failover.failover, failover.Stage, failover.FailoverEvent),
    "shutdown": (shutdown.TABLE, shutdown.shutdown, shutdown.Stage, shutdown.ShutdownEvent),
}
each_machine = pytest.mark.parametrize(("table", "start", "states", "events"), MACHINES.values(), ids=MACHINES)


def paths(table: Table, first: Any) -> dict[Any, list[Any]]:
    """Return, for each state that can be reached from the first state, the events that lead there."""
    found: dict[Any, list[Any]] = {first: []}
    new = [first]
    while new:
        state = new.pop(0)
        for (source, event), target in table.items():
            if source is state and target not in found:
                found[target] = [*found[state], event]
                new.append(target)
    return found


@each_machine
def test_exactly_the_transitions_of_the_table_work(table, start, states, events):
    """Each event leads from each state to the next state in the table; other events raise and keep the state."""
    ways = paths(table, start().state)
    for state, event in itertools.product(states, events):
        machine = start()
        for step in ways[state]:
            machine.fire(step)
        assert machine.state is state
        if (state, event) in table:
            assert machine.fire(event) is table[state, event]
            assert machine.state is table[state, event]
        else:
            with pytest.raises(IllegalTransitionError, match=f"{event.name} is illegal in the state {state.name}"):
                machine.fire(event)
            assert machine.state is state


@each_machine
def test_no_state_and_no_event_is_unused(table, start, states, events):
    """Each state can be reached from the first one, and each event has a transition."""
    assert set(paths(table, start().state)) == set(states)
    assert {event for _, event in table} == set(events)


@pytest.mark.parametrize(
    "module",
    [
        life,
        log_file,
        rewrite,
        save,
        switch,
        replica_states,
        link_states,
        failover,
        shutdown,
        cold_packer,
    ],
)
def test_the_drawing_has_all_states_and_events(module):
    """The module docstring that draws a state machine names each of its states and events."""
    drawing = module.__doc__
    for name in {member.name for pair in module.TABLE for member in pair}:
        assert name in drawing, name
