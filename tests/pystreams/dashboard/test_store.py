"""The history on disk: averages per minute, size limit, restarts, full disks and damaged files."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
import redis

from pystreams.dashboard.history import folder
from pystreams.dashboard.history.store import STEP_MS, Store
from pystreams.dashboard.sampling.sampler import HOUR_MS, Sampler
from tests import servers
from tests.pystreams.dashboard.conftest import address_of
from tests.suite.waiting import wait_for

_DAY = 86_400_000
_START = 1_700_000_040_000  # the start of a minute


def _filled(directory: Path, minutes: int, *, series: int = 1, span: int = _DAY, budget: int = 256 << 20) -> Store:
    """Return a closed store. In each minute, each series has two samples: the minute's number, and that plus three."""
    store = Store(directory, span, budget)
    assert store.start()
    for minute in range(minutes):
        for value in (0, 3):
            values = {("lag", b"s\xff", str(each)): float(minute + value) for each in range(series)}
            store.add(_START + minute * STEP_MS + value * 1000, values)
        if minute + 1 < minutes:
            wait_for(store._minutes.empty, "the disk")
    store.stop()
    return store


def test_minutes_are_means_and_survive_a_restart(tmp_path: Path) -> None:
    """The samples of a minute become their mean, and another store reads the same file."""
    _filled(tmp_path, 3)
    again = Store(tmp_path)
    curve = again.curve(("lag", b"s\xff", "0"), 0, _START + _DAY)
    assert curve.at == [_START, _START + STEP_MS, _START + 2 * STEP_MS]
    assert curve.values == [1.5, 2.5, 3.5]
    assert again.curve(("lag", b"s\xff", "0"), _START, _START + 2 * STEP_MS).at == [_START + STEP_MS]
    assert again.curve(("lag", b"s", "0"), 0, _START + _DAY).at == []
    assert stat.S_IMODE(again.path.stat().st_mode) == 0o600


def test_old_minutes_and_series_are_deleted(tmp_path: Path) -> None:
    """Old minutes and series are deleted. A series that reuses a deleted series' number has none of its values."""
    span = 5 * STEP_MS
    _filled(tmp_path, 3, series=4, span=span)
    store = Store(tmp_path, span)
    assert store.start()
    later = _START + 20 * STEP_MS
    store.add(later, {("rate", b"new"): 7.0})
    store.stop()
    assert store.curve(("lag", b"s\xff", "0"), 0, later + 1).at == []
    assert (store.curve(("rate", b"new"), 0, later + 1).values) == [7.0]
    with closing(sqlite3.connect(store.path)) as file:
        assert file.execute("SELECT number FROM series").fetchall() == [(0,)]
        assert file.execute("SELECT COUNT(*) FROM minutes").fetchone() == (1,)


def test_the_file_stays_within_its_budget(tmp_path: Path) -> None:
    """The oldest minutes are deleted when the file reaches its size limit."""
    budget = 1 << 20
    store = _filled(tmp_path, 60, series=6_000, budget=budget)
    assert store.path.stat().st_size <= budget
    curve = store.curve(("lag", b"s\xff", "0"), 0, _START + _DAY)
    assert curve.at[-1] == _START + 59 * STEP_MS
    assert 10 < len(curve.at) < 60


def test_a_damaged_file_is_put_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A damaged file is renamed with a warning, and later minutes are written to a new file."""
    (tmp_path / "history.sqlite").write_bytes(b"no database at all" * 1000)
    with caplog.at_level(logging.WARNING):
        store = _filled(tmp_path, 3)
    assert "cannot be written, and is kept only in memory: file is not a database" in caplog.text
    assert "is written again" in caplog.text
    assert (tmp_path / "history.sqlite.damaged").read_bytes().startswith(b"no database")
    assert len(store.curve(("lag", b"s\xff", "0"), 0, _START + _DAY).at) == 2


def test_a_full_disk_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """On a full disk, samples are still accepted, and one warning is logged."""
    store = Store(tmp_path, budget=0)
    assert store.start()
    with caplog.at_level(logging.WARNING):
        for minute in range(6):
            store.add(_START + minute * STEP_MS, {("lag", str(each)): 1.0 for each in range(20_000)})
            wait_for(store._minutes.empty, "the disk")
        store.stop()
    assert caplog.text.count("kept only in memory: database or disk is full") == 1


def test_two_dashboards_do_not_write_one_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A second dashboard with the same file keeps its history in memory, with a warning."""
    first, second = Store(tmp_path), Store(tmp_path)
    assert first.start()
    try:
        with caplog.at_level(logging.WARNING):
            assert not second.start()
        assert "kept only in memory" in caplog.text
    finally:
        first.stop()


def test_the_state_directory_is_private(tmp_path: Path) -> None:
    """The state directory is created with mode 0700, and an existing one gets this mode."""
    directory = tmp_path / "a" / "b"
    assert stat.S_IMODE(folder.prepared(directory).stat().st_mode) == 0o700
    directory.chmod(0o755)
    assert stat.S_IMODE(folder.of_server(folder.prepared(directory), "redis://x:1").stat().st_mode) == 0o700
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert folder.default({"XDG_STATE_HOME": "/x"}) == Path("/x/pystreams/dashboard")
    assert os.fspath(folder.default({})).endswith("/.local/state/pystreams/dashboard")


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_a_restarted_dashboard_shows_earlier_history(
    instance: servers.Running, client: redis.Redis, tmp_path: Path
) -> None:
    """After a restart, charts combine minutes from disk with new samples."""
    client.xadd("s", {"a": 1})
    now = 1000 * client.time()[0]
    before = Store(tmp_path)
    assert before.start()
    for minutes in (300, 30):
        before.add(now - minutes * STEP_MS, {("entries",): float(minutes)})
    before.stop()
    sampler = Sampler(address_of(instance.url), 0.05, store=Store(tmp_path))
    sampler.start()
    try:
        wait_for(lambda: sampler.state.problem is None, "the first sample")
        hour, day = sampler.curve("entries"), sampler.curve("entries", span_ms=6 * HOUR_MS)
    finally:
        sampler.stop()
    assert (hour.values[0], hour.values[-1]) == (30.0, 1.0)
    assert (day.values[:2], day.values[-1]) == ([300.0, 30.0], 1.0)
