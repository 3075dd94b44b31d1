"""Routing in a cluster: the node that a redirection names."""

from __future__ import annotations

from streamclient.config.address import Endpoint, parse
from streamclient.routing import Topology


def test_a_redirection_without_a_host_names_another_port_of_the_server_that_sent_it() -> None:
    """The host is that of the slot's current owner, or the first server of the address if the owners are unknown."""
    topology = Topology(parse("redis+cluster://first:7000"))
    assert topology.ask_target("ASK 5 :7005") == Endpoint("first", 7005)
    topology._learn([(0, 99, Endpoint("second", 7001)), (100, 16_383, Endpoint("third", 7002))])
    assert topology.ask_target("ASK 5 :7005") == Endpoint("second", 7005)
    assert topology.ask_target("ASK 100 elsewhere:7005") == Endpoint("elsewhere", 7005)
