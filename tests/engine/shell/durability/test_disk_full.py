"""An engine on a disk that is full and later has room again. A limit on the size of files replaces the full disk.

The kernel accepts the bytes that fit and rejects the rest, as with a full disk.
"""

from __future__ import annotations

import os
import re
import resource
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.engine.shell.durability.lives import Client, life
from tests.suite.long import long_only
from tests.suite.waiting import DEADLINE, wait_for


def limit(running: servers.Running, size: int) -> None:
    """Limit the size of the process's files in bytes; ``RLIM_INFINITY`` makes room again."""
    resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class Writer:
    """Adds numbered entries, and records which of them were acknowledged."""

    def __init__(self, running: servers.Running) -> None:
        self._running = running
        self._client = Client(running)
        self._number = 0
        self.acknowledged: list[bytes] = []

    def add(self) -> Any:
        """Add one more entry; return the reply, or None if the connection was closed without a reply."""
        self._number += 1
        try:
            reply = self._client(f"XADD s {self._number}-0 field {os.urandom(50).hex()}")
        except ConnectionResetError:
            self._client.close()
            self._client = Client(self._running)
            return None
        if isinstance(reply, bytes):
            self.acknowledged.append(reply)
        return reply

    def add_until_refused(self) -> str:
        """Add entries until one is rejected; return the error."""
        for _ in range(100):
            reply = self.add()
            if isinstance(reply, str):
                return reply
        raise AssertionError("nothing was refused")

    def close(self) -> None:
        self._client.close()


def newest_increment(directory: Path) -> Path:
    """Return the log's current file."""
    found = (directory / "appendonlydir").glob("*.incr.aof")
    return max(found, key=lambda path: int(re.findall(r"[0-9]+", path.name)[0]))


@pytest.mark.parametrize("policy", ["always", *(pytest.param(each, marks=long_only) for each in ("everysec", "no"))])
def test_a_full_disk_loses_no_acknowledged_entry(tmp_path, policy):
    """Writes are rejected while the disk is full and accepted when there is room.

    Every acknowledged entry survives a restart, and the file contains no byte that was not written.
    """
    flags = ("--appendonly", "yes", "--appendfsync", policy)
    with life(tmp_path, *flags) as (running, client), closing(Writer(running)) as writer:
        for rewritten in (False, True, False):
            for _ in range(5):
                assert writer.add()
            wait_for(lambda: client.info()["aof_buffer_length"] == "0", "the log to be written")
            limit(running, newest_increment(tmp_path).stat().st_size + 300)
            assert writer.add_until_refused() == "MISCONF Errors writing to the AOF file: File too large"
            assert client("SET k v").startswith("MISCONF")
            limit(running, resource.RLIM_INFINITY)
            wait_for(lambda: client("SET k v") == b"OK", "writes to be accepted again")
            assert writer.add()
            assert b"\0" not in newest_increment(tmp_path).read_bytes()
            if rewritten:
                assert client("BGREWRITEAOF") == b"Background append only file rewriting started"
                wait_for(lambda: client.info()["aof_rewrite_in_progress"] == "0", "the rewrite")
        for _ in range(5):
            assert writer.add()
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(DEADLINE) == 0
    assert b"\0" not in newest_increment(tmp_path).read_bytes()
    with life(tmp_path, *flags) as (_, client):
        there = {entry[0] for entry in client("XRANGE s - +")}
        assert set(writer.acknowledged) <= there
