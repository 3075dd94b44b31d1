"""Shutdown while a file is being written, or while the data is incomplete."""

from __future__ import annotations

import pytest

from tests.engine.shell.durability.background.by_hand import (
    ended,
    without_log,
)


def test_incomplete_data_is_never_saved(tmp_path):
    """After a failed DEBUG RELOAD no request replaces the snapshot, and the process exits."""
    engine = without_log(tmp_path, save="3600 1")
    engine.run("XADD s 1-0 f v")
    assert engine.run("SAVE") == b"OK"
    path = tmp_path / "dump.rdb"
    damaged = bytearray(path.read_bytes())
    damaged[100] ^= 1
    path.write_bytes(damaged)
    engine.run("XADD s 2-0 f v")
    assert engine.run("DEBUG RELOAD NOSAVE").startswith("ERR")
    assert engine.host.ends
    for line in ("SAVE", "BGSAVE", "XADD s 3-0 f v", "DEBUG RELOAD"):
        assert "shutting down" in engine.run(line)
    ended(engine, "SHUTDOWN SAVE")
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("where", ["running", "ending", "closed"])
def test_partly_changed_data_is_never_saved(tmp_path, where):
    """After an unexpected error, the data in memory is no longer written to disk."""
    engine = without_log(tmp_path, save="3600 1")
    engine.run("XADD s 1-0 f v")
    assert engine.run("SAVE") == b"OK"
    saved = (tmp_path / "dump.rdb").read_bytes()

    if where == "ending":
        engine.run("SHUTDOWN NOSAVE")
    elif where == "closed":
        engine.close()
    engine.durability.give_up_data()
    if where != "closed":
        for line in ("SAVE", "BGSAVE", "XADD s 3-0 f v"):
            assert "shutting down" in engine.run(line)
        engine.close()
    assert (tmp_path / "dump.rdb").read_bytes() == saved
