"""A master and a replica with streams on disk."""

from __future__ import annotations

from pathlib import Path

from tests.engine.shell.durability.lives import life
from tests.suite.long import long_only
from tests.suite.waiting import wait_for

FLAGS = ("--appendonly", "yes", "--stream-storage", "disk")


@long_only
def test_a_replica_has_the_stored_segments_of_its_master(tmp_path: Path) -> None:
    """The replica gets all entries, stores segments on its own disk, and follows later changes."""
    folders = [tmp_path / name for name in ("master", "replica")]
    for folder in folders:
        folder.mkdir()
    tiny = "tests.servers.tiny_engine"
    with life(folders[0], *FLAGS, module=tiny) as (master, ask), life(folders[1], *FLAGS, module=tiny) as (_, replica):
        for number in range(1, 301):
            ask(f"XADD s {number}-1 a {number} b {'v' * 50}")
        wait_for(lambda: int(ask.info()["engine_segment_bytes"]) > 5000, "segments on the master's disk")
        replica(f"REPLICAOF 127.0.0.1 {master.port}")
        wait_for(lambda: replica("XLEN s") == 300, "the replica to have everything")
        for number in range(301, 401):
            ask(f"XADD s {number}-1 a {number} b {'v' * 50}")
        assert ask("XTRIM s MAXLEN 250") == 150
        wait_for(lambda: replica("XLEN s") == 250, "the replica to follow")
        assert replica("XRANGE s - +") == ask("XRANGE s - +")
        for client in (ask, replica):
            wait_for(
                lambda client=client: int(client.info()["engine_segment_dead_bytes"]) > 1000,
                "trimmed entries to be dead",
            )
