"""The link to a master: REPLICAOF in each of its states. `test_states.py` tests its transition table."""

from __future__ import annotations

import itertools

from engine.shell.replication.replica.link_states import TABLE, Link, LinkEvent
from streamwire.machine import Machine


def test_replicaof_works_in_every_state():
    """REPLICAOF host port starts an attempt and NO ONE stops it, in every state of the link."""
    for state, (event, target) in itertools.product(
        Link, ((LinkEvent.FOLLOW, Link.WAITING), (LinkEvent.LEAD, Link.OFF))
    ):
        assert Machine("a link", TABLE, state).fire(event) is target
