"""Three engines under three Sentinels as one killable server: after a kill, another engine becomes the master."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis

from tests.servers.sentinels import Member, Sentinels, family, sentinels
from tests.suite.waiting import wait_for

_NAME = "main"
#: Seconds for a failover, on a machine that has a lot to do.
_PATIENCE = 90.0


class Family:
    """A group of servers with the methods of `tests.chaos.harness.Server`.

    A write confirmed by one replica survives, because Sentinels choose the replica with the most data.
    """

    def __init__(self, members: list[Member], watching: Sentinels) -> None:
        self._members = members
        self._watching = watching
        self._dead: Member | None = None
        #: Number of masters that were killed and replaced by another engine.
        self.masters_killed = 0

    @property
    def url(self) -> str:
        return self._watching.url(_NAME)

    def _master(self) -> Member:
        port = self._watching.master(_NAME)
        return next(member for member in self._members if member.port == port)

    def client(self) -> redis.Redis:
        return self._master().client()

    def has_lasting(self, client: redis.Redis) -> bool:
        """Return whether a replica has the client's writes."""
        return int(client.wait(1, 2000)) >= 1

    def kill(self) -> None:
        """Kill the master once all its replicas follow it, and wait until another engine is the master."""
        dead = self._dead = self._master()
        others = [member for member in self._members if member is not dead]
        wait_for(lambda: all(member.follows(dead) for member in others), "the replicas to follow", _PATIENCE)
        dead.kill()
        wait_for(lambda: self._master() is not dead, "another master", _PATIENCE)
        wait_for(lambda: self._master().info().get("role") == "master", "the new master to lead", _PATIENCE)
        self.masters_killed += 1

    def start(self) -> None:
        """Start the killed engine, and wait until it follows the new master."""
        assert self._dead is not None
        self._dead.start()
        master, dead = self._master(), self._dead
        wait_for(lambda: dead.follows(master), "the killed one to follow", _PATIENCE)

    def check(self) -> None:
        """Wait until all engines have all entries, and compare them."""
        master = self._master()
        with master.client() as client:
            expected = client.xrange("in"), client.xrange("out")
        for member in self._members:
            if member is not master:
                wait_for(lambda: member.has_all_of(master), "a replica to have everything", _PATIENCE)  # noqa: B023
                with member.client() as client:
                    assert (client.xrange("in"), client.xrange("out")) == expected


@contextmanager
def watched_family() -> Iterator[Family]:
    """Yield a master and two replicas, watched by Sentinels."""
    with (
        sentinels() as watching,
        family("engine", "engine", "engine") as members,
        watching.watching(_NAME, members),
    ):
        yield Family(members, watching)
