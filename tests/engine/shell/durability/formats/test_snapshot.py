"""Snapshots restore the data of one moment, and any changed byte on disk is detected."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.formats.damage import DamagedError
from engine.core.keyspace import image
from engine.shell.durability import psb
from engine.shell.durability.files import Files
from tests.engine.shell.durability.workload import (
    Driver,
    driven,
    empty_core,
    everything,
    freeze,
    loaded,
    small_segments,
)
from tests.faults.engines import Engine
from tests.harness.replay import NOW_US, new_core
from tests.suite.long import FULL

LATER = NOW_US + 10**9


def written(core, path: Path) -> bytes:
    """Return a snapshot of ``core`` as bytes."""
    psb.write(Files(), path, image.capture(core.databases, core.changes.now))
    return path.read_bytes()


def read(data: bytes):
    """Return a core loaded from a snapshot."""
    core = empty_core()
    psb.load(memoryview(data), core)
    return loaded(core, LATER)


@settings(deadline=None, max_examples=40 if FULL else 10)
@given(seed=st.integers(0, 10**9), cold=st.sampled_from(["", "frames", "columns"]))
def test_all_data_is_restored(seed, cold, tmp_path_factory):
    """A snapshot holds all data of a core: entries, counters, groups, times, producers, other types
    and expiry.
    """
    path = tmp_path_factory.mktemp("snapshot") / "x"
    with small_segments():
        core = driven(seed)
        core.expire_due(LATER)
        if cold:
            freeze(core, as_columns=cold == "columns")
        again = read(written(core, path))
        assert everything(again) == everything(core)
        # Later commands must have the same effects, including the nodes of later entries.
        for target in (core, again):
            target.changes.effects.clear()
            target.changes.recording = True
            driver = Driver(target, seed + 1)
            driver.now_us = LATER
            driver.drive(60)
        assert again.changes.effects == core.changes.effects
        assert everything(again) == everything(core)


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> bytes:
    core = new_core()
    driver = Driver(core, 5)
    driver.run("XADD", "s", "*", "f", "v")
    driver.run("XADD", "s", "*", "f", "w")
    driver.run("XGROUP", "CREATE", "s", "g", "0")
    driver.run("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    driver.run("SET", "k", "v")
    return written(core, tmp_path_factory.mktemp("small") / "x")


def test_a_flipped_bit_anywhere_is_found(small):
    """With any bit of the file changed, the snapshot is rejected at a position within the file."""
    assert len(small) < 2000
    for at in range(0, 8 * len(small), 1 if FULL else 9):
        data = bytearray(small)
        data[at // 8] ^= 1 << at % 8
        with pytest.raises(DamagedError) as caught:
            psb.load(memoryview(bytes(data)), empty_core())
        assert 0 <= caught.value.offset <= len(small)


def test_a_truncated_file_is_rejected(small):
    """A snapshot that is truncated at any length is rejected, and so is one with extra bytes at the end."""
    for size in range(len(small)):
        with pytest.raises(DamagedError):
            psb.load(memoryview(small[:size]), empty_core())
    with pytest.raises(DamagedError):
        psb.load(memoryview(small + b"\0" * 8), empty_core())


def test_sealed_segments_are_not_copied(tmp_path):
    """The frames of a loaded segment are slices of the mapped file."""
    with small_segments():
        core = new_core()
        driver = Driver(core, 1)
        for number in range(40):
            driver.run("XADD", "s", "*", "n", number)
        psb.write(Files(), tmp_path / "x", image.capture(core.databases, core.changes.now))
        again = empty_core()
        psb.load(Files().map(tmp_path / "x"), again)
        (_, stream, _), *_ = again.databases[0].items()
        first, *_, last = stream.segments()
        assert isinstance(first.body.data, memoryview)
        assert isinstance(last.body.data, bytearray)


def test_writing_in_a_thread_pauses_after_each_key(tmp_path):
    """Writing a snapshot calls the pause function at least once per key."""
    engine, pauses = Engine(tmp_path), list[None]()
    for number in range(50):
        engine.run(f"HSET key-{number} f v")
    taken = image.capture(engine.core.databases, engine.core.changes.now)
    psb.write(Files(), tmp_path / "written", taken, pause=lambda: pauses.append(None))
    assert len(pauses) >= 50
    taken.free()
    assert list(taken.databases[0].items()) == []
