"""The link to a master: REPLICAOF in each of its states. `test_states.py` tests its transition table."""

from __future__ import annotations

import itertools

from engine.shell.replication.replica.link_states import TABLE, Link, LinkEvent
from streamwire.machine import Machine


def test_follow_and_lead_are_legal_in_every_state():
    """From every state of the link, FOLLOW (REPLICAOF host port) leads to WAITING and LEAD (NO ONE) to OFF."""
    for state, (event, target) in itertools.product(
        Link, ((LinkEvent.FOLLOW, Link.WAITING), (LinkEvent.LEAD, Link.OFF))
    ):
        assert Machine("a link", TABLE, state).fire(event) is target
