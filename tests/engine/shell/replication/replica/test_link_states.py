"""The link to a master as a state machine: every move of the table is made, everything else is refused."""

from __future__ import annotations

import itertools

import pytest

from engine.shell.durability.states.machine import IllegalTransitionError, Machine
from engine.shell.replication.replica import link_states
from engine.shell.replication.replica.link_states import TABLE, Link, LinkEvent

#: How each state is reached.
WAYS = {
    Link.OFF: "",
    Link.WAITING: "FOLLOW",
    Link.CONNECTING: "FOLLOW DUE",
    Link.HANDSHAKE: "FOLLOW DUE CONNECTED",
    Link.TRANSFER: "FOLLOW DUE CONNECTED FULL",
    Link.LOADING: "FOLLOW DUE CONNECTED FULL RECEIVED",
    Link.FOLLOWING: "FOLLOW DUE CONNECTED CONTINUE",
    Link.REFUSED: "FOLLOW DUE CONNECTED CONTINUE UNUSABLE",
}


def machine_in(state: Link) -> Machine[Link, LinkEvent]:
    machine = link_states.link()
    for word in WAYS[state].split():
        machine.fire(LinkEvent[word])
    assert machine.state is state
    return machine


@pytest.mark.parametrize("state", Link)
def test_every_move_of_the_table_is_made_and_no_other(state):
    """From each state each event leads where the table says; where it says nothing the machine complains and stays."""
    for event in LinkEvent:
        machine = machine_in(state)
        if (state, event) in TABLE:
            assert machine.fire(event) is TABLE[state, event]
        else:
            with pytest.raises(IllegalTransitionError):
                machine.fire(event)
            assert machine.state is state


def test_replicaof_is_heard_in_every_state():
    """REPLICAOF host port leads to an attempt and NO ONE to none, whatever the link is doing."""
    for state, (event, target) in itertools.product(
        Link, ((LinkEvent.FOLLOW, Link.WAITING), (LinkEvent.LEAD, Link.OFF))
    ):
        assert machine_in(state).fire(event) is target


def test_the_drawing_names_every_state_and_event():
    """The module's docstring draws all of the table."""
    for name in (*(one.name for one in Link), *(one.name for one in LinkEvent)):
        assert name in (link_states.__doc__ or ""), name
