"""Background saves, rewrites of the log and CONFIG SET appendonly at the same time, on an engine in a process.

Some replies are compared with those of Redis.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests import servers
from tests.engine.shell.durability.lives import Client, life
from tests.suite.waiting import wait_for


def together(client: Client, *lines: str) -> list[Any]:
    """Send commands in one packet, so that each runs during the background work of the earlier ones; return the
    replies.
    """
    client.send_lines(*lines)
    return [client.receive() for _ in lines]


@pytest.mark.parametrize("busy", [(), ("BGSAVE",)], ids=["idle", "while saving"])
def test_a_flush_is_saved(tmp_path, busy):
    """FLUSHALL writes a snapshot if there are save points: no change is left to save, and no key comes back."""
    flags = ("--save", "3600 1000000")
    with life(tmp_path, *flags) as (running, client):
        assert client("MSET " + " ".join(f"key:{number} value" for number in range(50_000))) == b"OK"
        assert client("SAVE") == b"OK"
        assert together(client, "SET more 1", *busy, "FLUSHALL")[-1] == b"OK"
        wait_for(lambda: b"rdb_changes_since_last_save:0\r\n" in client("INFO persistence"), "the flush to be saved")
        running.process.kill()
    with life(tmp_path, *flags) as (_, client):
        assert client("DBSIZE") == 0


def test_a_flush_without_save_points_is_not_saved(tmp_path):
    """Without save points, FLUSHALL writes no snapshot: the deleted keys count as unsaved changes."""
    with life(tmp_path, "--save", "") as (_, client):
        assert together(client, "SET a 1", "SAVE", "FLUSHALL")[-1] == b"OK"
        assert b"rdb_changes_since_last_save:1\r\n" in client("INFO persistence")


@pytest.mark.parametrize(
    "lines",
    [
        ["BGSAVE", "SAVE", "BGSAVE", "BGSAVE SCHEDULE", "BGREWRITEAOF", "BGREWRITEAOF"],
        ["BGREWRITEAOF", "SAVE", "BGSAVE", "BGSAVE SCHEDULE", "BGSAVE SCHEDULE", "BGSAVE", "BGREWRITEAOF"],
        [
            "CONFIG SET appendonly yes",
            "BGREWRITEAOF",
            "CONFIG SET appendonly no",
            "CONFIG SET appendonly yes",
            "BGSAVE",
        ],
    ],
    ids=["while saving", "while rewriting", "while switching"],
)
@pytest.mark.redis
def test_replies_while_files_are_written(tmp_path, lines):
    """SAVE, BGSAVE, BGREWRITEAOF and CONFIG SET appendonly reply as in Redis while another file is being written."""
    with servers.redis("--rdb-key-save-delay", "200000") as running:
        redis = Client(running)
        redis("SET k v")
        wanted = together(redis, *lines)
        redis.close()
    with life(tmp_path) as (_, client):
        client("SET k v")
        assert together(client, *lines) == wanted
