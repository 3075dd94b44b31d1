"""Transfer of all data into a core: completely or not at all."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.dispatch import Core
from engine.core.formats.damage import DamagedError, ForeignError
from engine.core.formats.rdb import writer
from engine.core.keyspace import image
from engine.shell.replication.link import Full, FullSync, FullSyncError
from tests.faults.disk import Disk
from tests.golden.scenarios import RELEASES
from tests.harness.replay import NOW_US, new_core, state
from tests.suite.waiting import DEADLINE, wait_for


def filled() -> Core:
    """Return a core with strings, a hash and a stream. The stream's group has a block of pending entries, some
    of one consumer and some of another.
    """
    core = new_core()
    session = core.open_session(NOW_US)
    lines = ["SET a 1", "SELECT 2", "HSET h f v", "SET later x PXAT 99999999999999"]
    lines += [f"XADD s {number}-{number % 3} f v{number}" for number in range(1, 3000)]
    lines += ["XGROUP CREATE s g 0", "XREADGROUP GROUP g one COUNT 1500 STREAMS s >"]
    lines += ["XREADGROUP GROUP g two COUNT 700 STREAMS s >", "XCLAIM s g two 0 5-2 9-0 1100-2 RETRYCOUNT 70"]
    for line in lines:
        core.execute(session, line.encode().split(), NOW_US)
    return core


@pytest.fixture(scope="module")
def source() -> Core:
    return filled()


@pytest.fixture(scope="module")
def payload(source: Core) -> bytes:
    taken = image.capture(source.databases, NOW_US // 1000)
    file = b"".join(writer.write(taken, 12))
    return b"$%d\r\n%b" % (len(file), file)


def transfer_of(
    directory: Path,
    files: Disk | None = None,
    on_loaded: Callable[[], None] = lambda: None,
) -> tuple[Core, FullSync]:
    core = new_core()
    core.config.put("dir", str(directory).encode())
    session = core.open_session(NOW_US)
    core.execute(session, [b"SET", b"old", b"value"], NOW_US)
    return core, FullSync(core, time.monotonic, Full(b"a" * 40, 0), on_loaded, files)


def finish(transfer: FullSync) -> None:
    """Load everything that has arrived."""
    while transfer.work():
        pass


@pytest.mark.parametrize("size", [3, 1 << 20])
def test_the_data_replaces_the_old_data(tmp_path, source, payload, size):
    """Nothing changes before everything is loaded; then the core has the new data, and no file is left.

    The file ends at its size, wherever the input is cut, and the bytes after it are returned.
    """
    core, transfer = transfer_of(tmp_path)
    sent, rest = b"\n\n" + payload + b"behind", b""
    for at in range(0, len(sent), size):
        piece = sent[at : at + size]
        rest += piece if transfer.payload.is_complete else transfer.feed(piece)
    assert rest == b"behind"
    finish(transfer)
    assert transfer.is_done
    assert transfer.read == transfer.payload.received == transfer.payload.size
    assert core.databases[0].holds(b"old")
    transfer.put_in_place()
    assert state(core) == state(source)
    assert list(tmp_path.iterdir()) == []


def test_a_broken_transfer_leaves_nothing(tmp_path, payload):
    """A partly received file is dropped with the transfer, and the core is unchanged."""
    core, transfer = transfer_of(tmp_path)
    transfer.feed(payload[: len(payload) // 2])
    assert [path.suffix for path in tmp_path.iterdir()] == [".rdb"]
    transfer.close()
    assert list(tmp_path.iterdir()) == []
    assert [len(db) for db in core.databases[:3]] == [1, 0, 0]


def test_a_full_disk_is_reported(tmp_path, payload):
    """If the temporary file cannot be made or written, the error has the reason, and nothing is left."""
    full = Disk()
    full.fail("write", errno.ENOSPC)
    _, transfer = transfer_of(tmp_path, full)
    with pytest.raises(FullSyncError, match="No space left"):
        transfer.feed(payload)
    transfer.close()
    assert list(tmp_path.iterdir()) == []
    full.heal()
    full.fail("create", errno.EACCES)
    with pytest.raises(FullSyncError, match="Permission denied"):
        transfer_of(tmp_path, full)


def test_damaged_and_unsupported_data_are_different_errors(tmp_path, payload):
    """A wrong checksum raises DamagedError, unsupported content ForeignError, and a wrong end FullSyncError."""
    changed = bytearray(payload)
    changed[-1] ^= 1
    _, transfer = transfer_of(tmp_path)
    transfer.feed(bytes(changed))
    with pytest.raises(DamagedError, match="checksum") as caught:
        finish(transfer)
    assert not isinstance(caught.value, ForeignError)
    transfer.close()
    foreign = b"REDIS0011\x07\x01k\x05\x00\xff" + bytes(8)
    _, transfer = transfer_of(tmp_path)
    transfer.feed(b"$%d\r\n%b" % (len(foreign), foreign))
    with pytest.raises(ForeignError, match=r"types: values of the module type .*: 1 \(first: key 'k' of database 0\)"):
        finish(transfer)
    size, _, file = payload.partition(b"\r\n")
    _, transfer = transfer_of(tmp_path)
    transfer.feed(b"$%d\r\n%bmore" % (int(size[1:]) + 4, file))
    with pytest.raises(FullSyncError, match="follow the end"):
        finish(transfer)
    transfer.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["rdb", "psb"])
def test_a_file_with_unsupported_types_does_not_cost_the_old_data(tmp_path, form):
    """A complete file is refused, with all types that the engine does not store, before the old data is dropped."""
    lists = b"".join(b"\x0e\x05list%d\x01\x01a" % number for number in range(3))
    data = b"REDIS0011" + lists + b"\x02\x03set\x01\x01a\xff" + bytes(8)
    if form == "psb":
        data = (RELEASES / "1.0.0rc1" / "engine-all-types" / "psb" / "dump.psb").read_bytes()
    counts = "lists: 2 .*sets: 4 " if form == "psb" else r"lists: 3 \(first: key 'list0' of database 0\); sets: 1 "

    async def story() -> None:
        loaded = asyncio.Event()
        core, transfer = transfer_of(tmp_path, on_loaded=loaded.set)
        transfer.feed(b"$%d\r\n%b" % (len(data), data))
        if form == "psb":
            await asyncio.wait_for(loaded.wait(), DEADLINE)
        with pytest.raises(ForeignError, match=counts):
            finish(transfer)
        assert core.databases[0].holds(b"old")
        transfer.close()

    asyncio.run(story())
    assert list(tmp_path.iterdir()) == []


class WhoCloses(Disk):
    """Files that record the threads that close them."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[threading.Thread] = []

    def close(self, fd: int) -> None:
        self.threads.append(threading.current_thread())
        super().close(fd)


@pytest.mark.parametrize("size", [1 << 10, 2 << 20])
def test_a_large_file_is_closed_in_another_thread(tmp_path, size):
    """A large file is closed in another thread, because freeing its content takes time; a small file is not."""
    files = WhoCloses()
    _, transfer = transfer_of(tmp_path, files)
    transfer.feed(b"$%d\r\n%b" % (size + 1, bytes(size)))
    transfer.close()
    wait_for(lambda: not list(tmp_path.iterdir()), "the file to be removed")
    [thread] = files.threads
    assert (thread is threading.current_thread()) == (size < 1 << 20)
    if thread is not threading.current_thread():
        thread.join(10)
