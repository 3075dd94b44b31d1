"""Attempts to write background files: temporary names, abandoned attempts, and results that threads report late."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from engine.shell.durability.background import Attempt, Workers
from engine.shell.durability.disk import Ownership
from engine.shell.durability.files import Files
from engine.shell.durability.snapshots import TEMPORARY
from tests.suite.waiting import DEADLINE, wait_for


class SlowFiles(Files):
    """Files whose rename waits for the test."""

    def __init__(self) -> None:
        self.renaming = threading.Event()
        self.may_rename = threading.Event()

    def rename(self, old: Path, new: Path) -> None:
        self.renaming.set()
        assert self.may_rename.wait(DEADLINE)
        super().rename(old, new)


def test_abandoning_waits_for_a_rename_in_progress(tmp_path):
    """After an attempt is abandoned, its thread cannot replace a newer file with a late rename."""
    files = SlowFiles()
    target = tmp_path / "target"
    attempt = Attempt(files, tmp_path, "temp-", ".rdb")
    attempt.temporary.write_text("older")
    writer = threading.Thread(target=attempt.put_in_place, args=(target,))
    writer.start()
    assert files.renaming.wait(DEADLINE)
    abandoned = threading.Event()

    def abandon() -> None:
        attempt.abandon()
        abandoned.set()

    loop = threading.Thread(target=abandon)
    loop.start()
    assert not abandoned.wait(0.05)
    files.may_rename.set()
    assert abandoned.wait(DEADLINE)
    assert target.read_text() == "older"
    writer.join(DEADLINE)
    loop.join(DEADLINE)


def test_the_owner_removes_unfinished_files(tmp_path):
    """Acquiring and releasing a directory removes unfinished snapshots, and no other files."""
    names = ["temp-1-1.rdb", "temp-12-345.rdb", "temp-1.rdb", "temp-a-1.rdb", "dump.rdb"]
    for name in names:
        (tmp_path / name).touch()
    ownership = Ownership(Files(), tmp_path, TEMPORARY)
    assert ownership.acquire()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dump.rdb", "temp-1.rdb", "temp-a-1.rdb"]
    other = Ownership(Files(), tmp_path, TEMPORARY)
    (tmp_path / "temp-1-2.rdb").touch()
    assert not other.acquire()
    assert (tmp_path / "temp-1-2.rdb").exists()
    ownership.release()
    assert other.acquire()
    assert not (tmp_path / "temp-1-2.rdb").exists()
    other.release()


def test_nothing_is_reported_after_closing():
    """Work that ends while the threads are closed is completed but not reported.

    Its files may belong to another engine by then.
    """
    done: list[str] = []
    reports: list[OSError | None] = []

    async def run() -> None:
        threads = Workers(asyncio.get_running_loop())
        threads.save(lambda: done.append("before"), reports.append)
        await asyncio.to_thread(wait_for, lambda: done, "the work")
        while not reports:
            await asyncio.sleep(0)
        threads.save(lambda: done.append("saved"), reports.append)
        threads.sync(lambda: done.append("synced"), reports.append)
        threads.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(run())
    assert sorted(done) == ["before", "saved", "synced"]
    assert reports == [None]
