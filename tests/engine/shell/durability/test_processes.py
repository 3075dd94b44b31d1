"""Durability of the engine as a process: timing of replies, signals, and INFO."""

from __future__ import annotations

import signal

import pytest

from tests.engine.shell.durability.lives import ALWAYS, Client, life
from tests.servers.connection import wait_until_blocked


def test_commands_of_one_iteration_share_an_fsync(tmp_path):
    """With appendfsync always, the commands of many clients in one iteration share an fsync, and all get a reply."""
    with life(tmp_path, *ALWAYS) as (running, client):
        others = [Client(running) for _ in range(20)]
        lines = ["XADD s * f v", "SET k v", "XLEN s"] * 30
        for other in others:
            other.send_lines(*lines)
        for other in others:
            replies = [other.receive() for _ in lines]
            assert all(isinstance(reply, bytes | int) for reply in replies)
            other.close()
        assert client("XLEN s") == 600
        # 1,200 commands changed data. How many of them share an iteration, and so an fsync, depends on the load.
        assert int(client.info()["engine_aof_fsyncs"]) < 200
    with life(tmp_path, *ALWAYS) as (_, client):
        assert client("XLEN s") == 600


def test_a_woken_consumer_gets_only_durable_entries(tmp_path):
    """A blocked consumer gets an entry only when it is durable: after a SIGKILL the entry exists and is pending."""
    with life(tmp_path, *ALWAYS) as (running, client):
        client("XGROUP CREATE s g $ MKSTREAM")
        waiting = Client(running)
        waiting.send_lines("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
        wait_until_blocked(client, 1)
        client.send_lines("XADD s 5-1 f v")
        assert waiting.receive()[0][1][0][0] == b"5-1"
        running.process.send_signal(signal.SIGKILL)
        waiting.close()
    with life(tmp_path, *ALWAYS) as (_, client):
        assert client("XPENDING s g")[0] == 1
        assert client("XLEN s") == 1


def test_quit_after_a_write_gets_its_replies(tmp_path):
    """Replies that wait for the disk are sent before a connection closes with QUIT."""
    with life(tmp_path, *ALWAYS) as (_, client):
        client.send_lines("SET k v", "GET k", "QUIT")
        assert [client.receive() for _ in range(3)] == [b"OK", b"v", b"OK"]
        with pytest.raises(ConnectionResetError):
            client.receive()


def test_reloading_does_not_disturb_blocked_clients(tmp_path):
    """A consumer that is blocked during DEBUG LOADAOF and RELOAD gets only entries that are added afterwards."""
    with life(tmp_path, *ALWAYS, "--enable-debug-command", "yes") as (running, client):
        client("XGROUP CREATE s g $ MKSTREAM")
        client("XADD s 1-1 f v")
        client("XREADGROUP GROUP g c STREAMS s >")
        waiting = Client(running)
        waiting.send_lines("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
        wait_until_blocked(client, 1)
        assert client("DEBUG LOADAOF") == b"OK"
        assert client("DEBUG RELOAD") == b"OK"
        client("XADD s 2-1 f v")
        assert [entry[0] for entry in waiting.receive()[0][1]] == [b"2-1"]
        waiting.close()
        assert client("XPENDING s g")[0] == 2
