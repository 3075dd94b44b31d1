"""MEMORY USAGE of long values: estimated from samples, cheap and approximately right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.core.keyspace import footprint
from engine.core.streams import pending, segment
from engine.core.streams.stream import Stream
from tests.harness.replay import NOW_US, new_core
from tests.harness.storing import segment_files, store


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    """Return a stream with 400 segments and 300 groups, one of them with 1,000 consumers and 200 blocks of pending
    entries.
    """
    monkeypatch.setattr(segment, "SEGMENT_ENTRIES", 4)
    monkeypatch.setattr(pending, "BLOCK", 8)
    core = new_core()
    session = core.open_session(NOW_US)

    def run(*words: str | int) -> None:
        core.execute(session, [str(word).encode() for word in words], NOW_US)

    for number in range(1600):
        run("XADD", "s", f"{number}-1", "field", "v" * (50 + number % 7))
    for number in range(299):
        run("XGROUP", "CREATE", "s", f"group-{number}", 0)
    run("XGROUP", "CREATE", "s", "a", 0)
    for number in range(1000):
        run("XGROUP", "CREATECONSUMER", "s", "a", f"consumer-{number}")
    run("XREADGROUP", "GROUP", "a", "c", "STREAMS", "s", ">")
    found = core.databases[0].stream(b"s")
    assert found is not None
    return found


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


def test_a_long_stream_is_measured_by_samples(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 5 samples the size is within 5 percent after less than half of the calls; with many samples it is exact."""
    calls = 0
    plain = footprint.size_of

    def counted(value: Any) -> int:
        nonlocal calls
        calls += 1
        return plain(value)

    monkeypatch.setattr(footprint, "size_of", counted)
    monkeypatch.setattr(pending, "size_of", counted)
    exact, all_calls = footprint.of_stream(stream), calls
    calls = 0
    about = footprint.of_stream(stream, 5)
    assert calls * 2 < all_calls
    assert about == pytest.approx(exact, rel=0.05)
    assert footprint.of_stream(stream, 5000) == exact
