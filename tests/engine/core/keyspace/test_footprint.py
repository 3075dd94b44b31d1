"""MEMORY USAGE of long values: estimated from samples, cheap and approximately right."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.keyspace import footprint
from engine.core.streams import segment
from tests.harness.replay import NOW_US, new_core
from tests.harness.storing import segment_files, store


def test_reading_entries_on_disk_does_not_change_their_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """MEMORY USAGE of a stream with entries on disk is the same before and after a read, which caches them."""
    monkeypatch.setattr(segment, "SEGMENT_ENTRIES", 4)
    core = new_core()
    session = core.open_session(NOW_US)
    for number in range(100):
        core.execute(session, [b"XADD", b"s", b"%d-1" % (number + 1), b"field", b"v" * 500], NOW_US)
    store(core, segment_files(tmp_path))
    stream = core.databases[0].stream(b"s")
    assert stream is not None
    before = footprint.of_stream(stream)
    core.execute(session, [b"XRANGE", b"s", b"5-1", b"6-1"], NOW_US)
    assert core.streams.storage.cache.size > 0
    assert footprint.of_stream(stream) == before
