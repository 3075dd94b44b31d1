"""A rolling upgrade of three engines under Sentinel, as docs/operations/upgrades.md describes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from pystreams.connect import Wanted, connect
from streamclient.errors import BROKEN, PystreamsError
from tests.pystreams.conftest import Cli
from tests.servers.sentinels import PATIENCE, Member, Sentinels, family, sentinels
from tests.suite.long import FULL, long_only
from tests.suite.waiting import wait_for


class Writer(threading.Thread):
    """Adds numbered entries as fast as it can, repeats each until it is acknowledged, and measures the
    longest pause.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._over = threading.Event()
        self.acknowledged = 0
        self.longest_pause = 0.0

    def run(self) -> None:
        connection = connect(Wanted(self._url), "")
        last = time.monotonic()
        try:
            while not self._over.is_set():
                try:
                    connection.command("XADD", "orders", "*", "n", self.acknowledged + 1)
                except (*BROKEN, PystreamsError):
                    continue  # Not acknowledged: send the same number again.
                self.acknowledged += 1
                now = time.monotonic()
                self.longest_pause, last = max(self.longest_pause, now - last), now
        finally:
            connection.close()

    def finish(self) -> None:
        self._over.set()
        self.join(PATIENCE)
        assert not self.is_alive()


def _restart(member: Member, master: Member) -> None:
    """Stop a replica, start it again as after an upgrade, and wait until it follows the master."""
    member.stop()
    member.start()
    wait_for(lambda: member.follows(master), "the replica to follow again", PATIENCE)


def _master(members: list[Member], watching: Sentinels) -> Member:
    port = watching.master("orders")
    return next(each for each in members if each.port == port)


def _is_known_to_all(watching: Sentinels, count: int) -> bool:
    """Return whether every Sentinel sees this many replicas, all of them up."""
    for number in range(len(watching.ports)):
        with watching.client(number) as client:
            replicas = client.sentinel_slaves("orders")
        if len(replicas) != count or any(each["flags"] != "slave" for each in replicas):
            return False
    return True


def _upgrade(members: list[Member], watching: Sentinels, cli: Cli) -> None:
    """Upgrade each replica; then fail over, and upgrade the former master."""
    master = _master(members, watching)
    for member in members:
        if member is not master:
            _restart(member, master)
    wait_for(lambda: _is_known_to_all(watching, len(members) - 1), "the Sentinels to see the replicas", PATIENCE)
    cli("server", "replication", "--failover", "--yes")
    now = _master(members, watching)
    assert now is not master
    wait_for(lambda: master.follows(now), "the former master to follow", PATIENCE)
    _restart(master, now)


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=long_only)])
def test_a_rolling_upgrade_loses_no_write(
    rounds: int, tmp_path: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """After rolling upgrades under load, every acknowledged entry is on the master and its replicas."""
    if FULL and rounds == 1:
        pytest.skip("the ten rounds include this one")
    with (
        sentinels() as watching,
        family("engine", "engine", "engine", flags=("--appendonly", "yes")) as members,
        watching.watching("orders", members, down_after=2000),
    ):
        writer = Writer(watching.url("orders"))
        writer.start()
        try:
            wait_for(lambda: writer.acknowledged > 100, "the first writes", PATIENCE)
            for _ in range(rounds):
                before = writer.acknowledged
                _upgrade(members, watching, Cli(watching.url("orders"), tmp_path))
                wait_for(lambda: writer.acknowledged > before + 100, "writes after the upgrade", PATIENCE)  # noqa: B023
        finally:
            writer.finish()
        master = _master(members, watching)
        for member in members:
            if member is not master:
                wait_for(lambda: member.has_all_of(master), "the replicas to have everything", PATIENCE)  # noqa: B023
        for member in members:
            with redis.Redis(port=member.port, protocol=2) as client:
                found = [int(fields[b"n"]) for _, fields in client.xrange("orders")]
            assert sorted(set(found)) == list(range(1, writer.acknowledged + 1))
    record_testsuite_property("entries", writer.acknowledged)
    record_testsuite_property("longest pause in seconds", round(writer.longest_pause, 2))
