"""Rewrites of the log, and the log's file on a full disk or after a failed fsync."""

from __future__ import annotations

import errno

import pytest

from tests.engine.shell.durability.background.by_hand import (
    ended,
    entries,
    life_of,
    restarted,
)


def test_a_full_disk_and_the_log_switched_off(tmp_path):
    """CONFIG SET appendonly no on a full disk accepts writes at once, and a log that starts later is complete."""
    engine = life_of(tmp_path)
    engine.run("XADD s 1-0 f v")
    engine.files.room = 20
    engine.run("XADD s 2-0 f v")
    assert engine.run("CONFIG SET appendonly no") == b"OK"
    assert engine.run("XADD s 3-0 f v") == b"3-0"
    engine.files.heal()
    engine.run("CONFIG SET appendonly yes")
    engine.workers.run()
    assert entries(restarted(engine)) == [b"1-0", b"2-0", b"3-0"]


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_nothing_is_appended_to_a_partial_block(tmp_path, policy):
    """SHUTDOWN FORCE keeps a file that ends in a partial block; the next start removes that block."""
    engine = life_of(tmp_path, appendfsync=policy)
    engine.run("XADD s 1-0 f v")
    engine.files.room = 20
    engine.files.fail("cut", errno.EIO)
    engine.run("XADD s 2-0 f v")
    assert engine.run("SHUTDOWN") == "ERR Errors trying to SHUTDOWN. Check logs."
    engine.run("SHUTDOWN FORCE")
    assert engine.host.ends
    engine.files.heal()
    engine.close()
    assert entries(restarted(engine)) == [b"1-0"]


def test_a_broken_log_is_rewritten_before_the_process_exits(tmp_path):
    """SHUTDOWN rewrites a broken log without waiting for the next attempt: if the disk works again, the log is
    complete.
    """
    engine = life_of(tmp_path)
    engine.run("XADD s 1-0 f v")
    engine.files.fail("sync", errno.EIO)
    engine.run("XADD s 2-0 f v")
    engine.tick(2)
    engine.workers.run()
    assert engine.log.is_broken
    engine.files.heal()
    ended(engine)
    assert entries(restarted(engine)) == [b"1-0", b"2-0"]
