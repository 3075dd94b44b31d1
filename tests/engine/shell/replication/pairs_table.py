"""`python -m tests.engine.shell.replication.pairs_table [--write]`: which servers can follow each other.

Each server is tried as the master of each: the engine, the `redis-server` on PATH, and the peers that `scripts/peers`
has unpacked. Each pair is tested with a full synchronisation, a partial one after a broken link, and FAILOVER to the
replica. After each of them the data is compared: streams, strings and hashes in every encoding. The script prints the
pairs that fail, and with `--write` puts them into docs/operations/replication.md.
"""

# ruff: noqa: T201 - it reports on stdout

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial

import redis

from scripts.generated import ROOT, Part
from scripts.peers import PEERS_DIR, Peers
from tests.engine.core.formats import real_files
from tests.engine.shell.replication.family import contents
from tests.servers import redis_release
from tests.servers.connection import Connection
from tests.servers.sentinels import Member, members
from tests.suite.waiting import wait_for

PART = Part(
    ROOT / "docs" / "operations" / "replication.md", r"<!-- pairs: written by [^\n]* -->\n", r"<!-- end of pairs -->"
)
#: Seconds to wait for each condition, on a busy machine.
_PATIENCE = 12.0
#: Text in a replica's log when a synchronisation is impossible, and the reason that the table shows.
_REASONS = {
    "Can't handle RDB format version": "RDB too new",
    "Wrong signature trying to load DB": "RDB of another kind",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.engine.shell.replication.pairs_table", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the result into docs/operations/replication.md")
    arguments = parser.parse_args()
    kinds = servers()
    found: dict[tuple[str, str], str] = {}
    for master in kinds:
        for replica in kinds:
            found[master, replica] = seen(kinds[master], kinds[replica])
            print(f"{master} > {replica}: {found[master, replica]}", flush=True)
    text = summary(found)
    print(text)
    if arguments.write:
        PART.write(f"\n{text}\n")


def summary(found: Mapping[tuple[str, str], str]) -> str:
    """Return a list of the servers, and of the masters that some servers cannot follow.

    `found` has the result of `seen` for each pair of master and replica.
    """
    kinds = list(dict.fromkeys(master for master, _ in found))
    failed: dict[tuple[str, str], list[str]] = {}
    for (master, replica), result in found.items():
        if result != "yes":
            failed.setdefault((master, result), []).append(replica)
    alike: dict[tuple[str, str], list[str]] = {}
    for (master, result), replicas in failed.items():
        alike.setdefault((", ".join(replicas), result), []).append(master)
    lines = [f"* {', '.join(masters)} as master of {those}: {result}" for (those, result), masters in alike.items()]
    return "\n".join([f"Servers: {', '.join(kinds)}. All pairs work, except:", "", *lines, ""])


def servers() -> dict[str, str]:
    """Return the servers by name, with their kinds (`tests.servers.sentinels.Member`)."""
    peers = Peers(PEERS_DIR)
    version = ".".join(map(str, redis_release().version))
    return {"engine": "engine", f"redis {version}": "redis", **{n: str(peers.server(n)) for n in sorted(peers.here())}}


def seen(master_kind: str, replica_kind: str) -> str:
    """Return "yes" if all steps work for a pair, otherwise the steps that worked and the reason why the next one did
    not.
    """
    found: list[str] = []
    with members(master_kind, replica_kind) as (master, replica):
        refused = [words for member in (replica, master) for words in prepared(member)]
        with Connection(master) as client:
            real_files.fill(client.run, without=refused)
        fill(master, 0)
        steps: dict[str, Callable[[], None]] = {
            "full synchronisation": partial(follow, master, replica),
            "partial synchronisation": partial(cut, master, replica),
            "FAILOVER": partial(hand_over, master, replica),
        }
        for name, step in steps.items():
            try:
                step()
            except (TimeoutError, AssertionError):
                found.append(reason(replica) or f"no {name}")
                break
            found.append(name)
    return "yes" if found == list(steps) else ", ".join(found)


def reason(replica: Member) -> str:
    """Return the reason that the replica's log shows for not following, or an empty text."""
    text = replica.output.read_text(errors="replace")
    return next((words for known, words in _REASONS.items() if known in text), "")


def prepared(member: Member) -> list[real_files.Command]:
    """Empty a server; return the commands of `real_files` that it does not support."""
    with Connection(member) as client:
        refused = real_files.fill(client.run)
        client.run("FLUSHALL")
    return refused


def fill(master: Member, start: int) -> None:
    """Write data of every type that all servers support."""
    with master.client() as client, client.pipeline(transaction=False) as pipe:
        for number in range(start, start + 200):
            pipe.xadd("pairs", {"number": number, "text": "x" * (number % 50)}, id=f"{number + 1}-1")
        if not start:
            pipe.xgroup_create("pairs", "g", "0")
        pipe.xreadgroup("g", "c", {"pairs": ">"}, count=50).xack("pairs", "g", f"{start // 4 + 2}-1").xdel(
            "pairs", f"{start + 7}-1"
        )
        pipe.set(f"text-{start}", b"\0\r\nbin").set(f"later-{start}", "v", ex=100_000)
        pipe.hset("table", mapping={f"f-{start}": "v"}).execute()


def same(master: Member, replica: Member) -> None:
    """Wait until the replica has applied everything, and compare the data."""
    wait_for(lambda: replica.has_all_of(master), "the replica", _PATIENCE)
    with redis.Redis(port=master.port) as master_client, redis.Redis(port=replica.port) as replica_client:
        assert contents(master_client) == contents(replica_client)
    with Connection(master) as first, Connection(replica) as second:
        expected, found = real_files.view(first.run), real_files.view(second.run)
        assert expected.keys() == found.keys()
        # Streams are compared above, because Redis 7.0 does not replicate everything that is compared here.
        assert [value for value in expected.values() if value[:1] != (b"stream",)] == [
            value for value in found.values() if value[:1] != (b"stream",)
        ]


def counted(member: Member, name: str) -> int:
    """Return a counter of INFO stats."""
    with member.client() as client:
        return int(client.info("stats")[name])


def follow(master: Member, replica: Member) -> None:
    """Test a full synchronisation, and the stream after it."""
    replica.run("REPLICAOF", "127.0.0.1", master.port)
    wait_for(lambda: replica.follows(master), "the full synchronisation", _PATIENCE)
    fill(master, 1000)
    same(master, replica)
    assert counted(master, "sync_full") == 1


def cut(master: Member, replica: Member) -> None:
    """Test a broken link: the master continues to write, and the replica continues from its offset."""
    before = counted(master, "sync_partial_ok")
    master.run("CLIENT", "KILL", "TYPE", "replica")
    fill(master, 2000)
    same(master, replica)
    assert (counted(master, "sync_full"), counted(master, "sync_partial_ok")) == (1, before + 1)


def hand_over(master: Member, replica: Member) -> None:
    """Test a change of the roles: no full synchronisation, and the old master follows."""
    wait_for(lambda: "'state': 'online'" in str(master.info()), "the replica to be online", _PATIENCE)
    master.run("FAILOVER", "TO", "127.0.0.1", replica.port, "TIMEOUT", 10_000)
    wait_for(lambda: master.follows(replica), "the failover", _PATIENCE)
    fill(replica, 3000)
    same(replica, master)
    assert counted(replica, "sync_full") == 0


if __name__ == "__main__":
    main()
