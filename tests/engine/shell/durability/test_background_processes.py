"""Background saves, rewrites of the log and CONFIG SET appendonly at the same time, on an engine in a process.

Some replies are compared with those of Redis.
"""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests import servers
from tests.engine.shell.durability.lives import ALWAYS, Client, life
from tests.suite.waiting import DEADLINE, wait_for


def together(client: Client, *lines: str) -> list[Any]:
    """Send commands in one packet, so that each runs during the background work of the earlier ones; return the
    replies.
    """
    client.send_lines(*lines)
    return [client.receive() for _ in lines]


@pytest.mark.parametrize("flags", [(), ALWAYS], ids=["snapshot", "log"])
def test_a_background_save_does_not_delay_shutdown(tmp_path, flags):
    """SHUTDOWN SAVE during a BGSAVE exits with status 0, and the snapshot has all entries."""
    with life(tmp_path, *flags) as (running, client):
        client.send_lines("XADD s 1-1 f v", "BGSAVE", "XADD s 2-1 f v", "SHUTDOWN SAVE")
        assert running.process.wait(DEADLINE) == 0
    assert not list(tmp_path.glob("temp-*"))
    with life(tmp_path, *flags) as (_, client):
        assert client("XLEN s") == 2


def test_a_signal_during_a_long_save(tmp_path):
    """SIGTERM while many keys are being saved abandons the save; the final save is complete, and the process exits."""
    flags = ("--save", "3600 1", "--enable-debug-command", "yes")
    with life(tmp_path, *flags) as (running, client):
        assert client("DEBUG POPULATE 200000 key 50") == b"OK"
        assert together(client, "SET last before", "BGSAVE")[1] == b"Background saving started"
        assert client("SET last value") == b"OK"
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(DEADLINE) == 0
    assert not list(tmp_path.glob("temp-*"))
    with life(tmp_path, *flags) as (_, client):
        assert client("DBSIZE") == 200_001
        assert client("GET last") == b"value"


def test_a_reload_during_a_long_save(tmp_path):
    """DEBUG RELOAD during a long BGSAVE writes and loads a snapshot of its own; the BGSAVE's file is removed."""
    flags = ("--enable-debug-command", "yes")
    with life(tmp_path, *flags) as (running, client):
        assert client("DEBUG POPULATE 100000 key 50") == b"OK"
        assert together(client, "BGSAVE", "SET last value", "DEBUG RELOAD", "DBSIZE", "GET last")[2:] == [
            b"OK",
            100_001,
            b"value",
        ]
        wait_for(lambda: not list(tmp_path.glob("temp-*")), "the older image to be removed")
        assert client("INFO persistence")
        running.process.kill()
    with life(tmp_path, *flags) as (_, client):
        assert client("GET last") == b"value"


@pytest.mark.parametrize("busy", [(), ("BGSAVE",)], ids=["idle", "while saving"])
def test_a_flush_is_saved(tmp_path, busy):
    """FLUSHALL writes a snapshot if there are save points: no change is left to save, and no key comes back."""
    flags = ("--save", "3600 1000000", "--enable-debug-command", "yes")
    with life(tmp_path, *flags) as (running, client):
        assert client("DEBUG POPULATE 50000 key 50") == b"OK"
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


def test_the_log_switched_off_and_on_again_at_once(tmp_path):
    """After CONFIG SET appendonly no and yes during a rewrite, later writes survive a restart."""
    with life(tmp_path, *ALWAYS) as (running, client):
        for number in range(5):
            together(
                client,
                f"XADD s {number}-1 f v",
                "BGREWRITEAOF",
                "CONFIG SET appendonly no",
                "CONFIG SET appendonly yes",
                f"XADD s {number}-2 f v",
            )
        wait_for(lambda: client.info()["aof_enabled"] == "1", "the log to be in use")
        assert client("XADD s 9-1 f v") == b"9-1"
        running.process.kill()
    with life(tmp_path, *ALWAYS) as (_, client):
        assert client("XLEN s") == 11


def test_shutdown_before_the_log_is_in_use(tmp_path):
    """SHUTDOWN directly after CONFIG SET appendonly yes writes the log before the process exits."""
    with life(tmp_path, "--appendfsync", "always") as (running, client):
        client.send_lines("XADD s 1-1 f v", "CONFIG SET appendonly yes", "XADD s 2-1 f v", "SHUTDOWN")
        assert running.process.wait(DEADLINE) == 0
    with life(tmp_path, *ALWAYS) as (_, client):
        assert client("XLEN s") == 2


def test_waitaof_fails_when_the_log_is_switched_off(tmp_path):
    """WAITAOF on one connection returns an error when another connection switches the log off."""
    with life(tmp_path, "--appendonly", "yes", "--appendfsync", "no") as (running, client):
        waiting = Client(running)
        waiting.send_lines("SET k v", "WAITAOF 1 0 0")
        assert waiting.receive() == b"OK"
        wait_for(lambda: b"blocked_clients:1" in client("INFO clients"), "the client to wait")
        assert client("CONFIG SET appendonly no") == b"OK"
        assert "appendonly is disabled" in waiting.receive()
        waiting.close()
