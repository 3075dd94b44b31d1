"""Lost entries of a group, derived from the server's counters."""

from __future__ import annotations

import random

import pytest

from spark_streams.read.query import loss
from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.streams.states import StreamState
from streamclient.streams.stream_server import StreamServer, open_server
from tests.spark_streams.driver import Site, numbers


class Past:
    """A stream with the group g under random changes, with the number of entries that the group has lost."""

    def __init__(self, site: Site, chance: random.Random) -> None:
        self.client = site.client
        self.chance = chance
        self.present: list[int] = []
        self.added = self.position = 0
        self.lost = 0  # since the last check
        site.client.flushall()
        self.add(chance.randint(0, 6))
        self.delete()
        start = chance.choice(["0", "$"])
        self.position = self.added if start == "$" else 0
        self.lost = 0
        site.client.xgroup_create("s", "g", start, mkstream=True)

    def add(self, count: int) -> None:
        for _ in range(count):
            self.added += 1
            self.client.xadd("s", {"n": 1}, id=f"{self.added}-1")
            self.present.append(self.added)

    def delete(self) -> None:
        if self.present:
            self._remove([self.chance.choice(self.present)])
            self.client.xdel("s", *(f"{n}-1" for n in range(1, self.added + 1) if n not in self.present))

    def trim(self, first: int) -> None:
        self.client.xtrim("s", minid=f"{first}-1", approximate=False)
        self._remove([n for n in self.present if n < first])

    def _remove(self, entries: list[int]) -> None:
        self.lost += sum(n > self.position for n in entries)
        self.present = [n for n in self.present if n not in entries]

    def read(self, count: int) -> None:
        for _, entries in self.client.xreadgroup("g", "other", {"s": ">"}, count=count):
            self.position = int(entries[-1][0].partition(b"-")[0])

    def happen(self) -> None:
        """Perform a random action of another program."""
        action = self.chance.choice(["add", "read", "trim", "delete"])
        if action == "delete":
            self.delete()
        else:
            getattr(self, action)(self.chance.randint(1, 4) + (self.position if action == "trim" else 0))


def state_of(server: StreamServer) -> StreamState:
    state = server.states.of(["s"], "g")["s"]
    assert state is not None
    return state


def test_losses_are_reported_once_and_never_falsely(site: Site) -> None:
    """No false loss is reported, and more than two thirds of the losses are found.

    After single entries have been deleted, a server may not know how far a group has read, so some losses are missed.
    """
    server = open_server(Connection(Address(site.url)))
    found = missed = 0
    for seed in range(80):
        past = Past(site, random.Random(seed))
        known = loss.group_baseline(state_of(server))
        for _ in range(10):
            past.happen()
            state = state_of(server)
            problem = loss.find_group_loss(state, known)
            assert problem is None or past.lost, (seed, problem, known, state)
            found, missed = found + (problem is not None), missed + (problem is None and past.lost > 0)
            if problem is not None or past.chance.random() < 0.3:
                known = loss.group_baseline(state, known)
                past.lost = 0
    assert found > 2 * missed > 0, (found, missed)


def test_a_deleted_entry_is_not_lost_again_when_its_neighbours_are_trimmed(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """A deleted entry is reported once, even if entries before it are trimmed later."""
    site.add("s", 12)
    options = {"consume": "shared", "trimOnCommit": "true", "failOnDataLoss": "false", "maxEntriesPerTrigger": 2}
    query = site.query(stream="s", group="g", **options)
    query.trigger()
    site.client.xdel("s", "8-1")
    with caplog.at_level("WARNING", "spark_streams"):
        assert numbers(query.drain()) == [2, 3, 4, 5, 6, 8, 9, 10, 11]
    assert caplog.text.count("ENTRIES_LOST") == 1
