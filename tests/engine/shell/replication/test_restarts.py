"""Restarted servers continue in the replication history at the position of their data."""

from __future__ import annotations

import shutil

import pytest

from tests.servers.sentinels import Member, members
from tests.suite.long import long_only
from tests.suite.waiting import wait_for


def has_all(replica: Member, master: Member) -> None:
    wait_for(lambda: replica.has_all_of(master), "the replica to have everything")


def syncs(master: Member) -> tuple[object, object]:
    """Return the numbers of full and partial synchronisations as a master since its start."""
    with master.client() as client:
        stats = client.info("stats")
        return stats["sync_full"], stats["sync_partial_ok"]


def written(master: Member, value: str) -> None:
    """Set ``k`` to ``value`` in database 2."""
    with master.client() as client, client.pipeline() as pipe:
        pipe.execute_command("SELECT", 2)
        pipe.set("k", value)
        pipe.execute()


def value_of(member: Member) -> object:
    with member.client() as client, client.pipeline(transaction=False) as pipe:
        return pipe.execute_command("SELECT", 2).get("k").execute()[1]


def test_restarted_engines_continue_in_the_history():
    """A replica that was shut down requests what it lacks, and so does the replica of a former master.

    After a crash a log is complete, but its offset is unknown: a full synchronisation follows.
    """
    with members("engine", "engine", flags=("--appendonly", "yes")) as (master, replica):
        written(master, "1")
        replica.run("REPLICAOF", "127.0.0.1", master.port)
        has_all(replica, master)
        replica.run("CONFIG", "REWRITE")
        written(master, "2")
        has_all(replica, master)
        replica.stop()
        written(master, "3")
        replica.start()
        has_all(replica, master)
        assert (syncs(master), value_of(replica)) == ((1, 1), b"3")
        master.stop()
        master.start()
        has_all(replica, master)
        assert syncs(master) == (0, 1)
        written(master, "4")
        has_all(replica, master)
        replica.kill()
        replica.start()
        has_all(replica, master)
        assert (syncs(master), value_of(replica)) == ((1, 1), b"4")


@pytest.mark.redis
@pytest.mark.parametrize("kinds", ["redis engine", pytest.param("engine redis", marks=long_only)])
def test_the_other_program_continues_from_the_file(kinds):
    """A snapshot that a replica writes at shutdown is loaded by the other program, which requests the rest."""
    first, second = kinds.split()
    with members("engine", first, second, flags=("--save", "3600 1")) as (master, replica, other):
        replica.run("REPLICAOF", "127.0.0.1", master.port)
        has_all(replica, master)
        written(master, "1")
        replica.stop()
        other.stop()
        written(master, "2")
        shutil.copy(replica.directory / "dump.rdb", other.directory / "dump.rdb")
        with other.config.open("a") as lines:
            lines.write(f"replicaof 127.0.0.1 {master.port}\n")
        other.start()
        has_all(other, master)
        assert syncs(master) == (1, 1)
        assert value_of(other) == b"2"
