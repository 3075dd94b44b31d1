"""The link to a master: what REPLICAOF does in each of its states. Its table is walked in `test_states.py`."""

from __future__ import annotations

import itertools

from engine.shell.replication.replica.link_states import TABLE, Link, LinkEvent
from streamwire.machine import Machine


def test_replicaof_is_heard_in_every_state():
    """REPLICAOF host port leads to an attempt and NO ONE to none, whatever the link is doing."""
    for state, (event, target) in itertools.product(
        Link, ((LinkEvent.FOLLOW, Link.WAITING), (LinkEvent.LEAD, Link.OFF))
    ):
        assert Machine("a link", TABLE, state).fire(event) is target
