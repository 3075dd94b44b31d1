"""RDB files on disk: writing an image to a file, loading a file into a core.

The format itself is in `engine.core.formats.rdb`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from engine.core.dispatch import Core
from engine.core.formats.damage import UnsupportedTypes
from engine.core.formats.rdb import reader, value_reader, writer
from engine.core.formats.rdb.reader import Loading
from engine.core.keyspace.image import Image
from engine.shell.durability.files import Files, write_all
from engine.shell.durability.position import Position, from_about

#: Bytes per read and per write.
_PIECE = 1 << 18
#: Bytes between two syncs while a file is written, so that the last sync is short.
_SYNC_EVERY = 64 << 20
#: Seconds for which a background thread works before it yields the GIL to the event loop.
_WORK = 0.0004
#: Seconds for which the thread sleeps after `_WORK`. Otherwise it would reacquire the GIL before the event loop does.
_REST = 0.00005


def is_rdb(data: memoryview) -> bool:
    """Return whether a file starts like an RDB file of Redis, Valkey or the engine."""
    return bytes(data[:16]).startswith(reader.MAGICS)


def taken_at(data: memoryview) -> int:
    """Return the time in an RDB file in milliseconds since the epoch; 0 if it contains no time. Raises DamagedError if
    the start of the file is damaged.
    """
    return reader.parse_header(bytes(data[:_PIECE])).taken_at


def position_of(data: memoryview) -> Position | None:
    """Return the position in a replication history stored in an RDB file; None if the file has no position."""
    return from_about(reader.parse_header(bytes(data[:_PIECE])).about)


def periodic_pause() -> Callable[[], None]:
    """Return a function for a background thread to call often. It yields to the event loop after `_WORK` seconds."""
    until = time.perf_counter() + _WORK

    def pause() -> None:
        nonlocal until
        if time.perf_counter() > until:
            time.sleep(_REST)
            until = time.perf_counter() + _WORK

    return pause


def write(
    files: Files,
    path: Path,
    image: Image,
    version: int,
    *,
    about: Mapping[bytes, bytes] | None = None,
    check: Callable[[], None] = lambda: None,
    pause: Callable[[], None] = lambda: None,
) -> None:
    """Write an RDB file of this version to a new file and sync it. ``about``: additional auxiliary fields.

    ``check`` is called before each write, and aborts the writing if it raises OSError. ``pause`` is called repeatedly.
    """
    fd = files.create(path)
    try:
        gathered: list[bytes] = []
        size = not_synced = 0
        for piece in writer.write(image, version, about):
            gathered.append(piece)
            size += len(piece)
            pause()
            if size < _PIECE:
                continue
            check()
            write_all(files, fd, [b"".join(gathered)])
            not_synced += size
            gathered, size = [], 0
            if not_synced >= _SYNC_EVERY:
                files.sync(fd)
                not_synced = 0
        check()
        write_all(files, fd, [b"".join(gathered)])
        files.sync(fd)
    finally:
        files.close(fd)


def load(data: memoryview, core: Core, left_out: UnsupportedTypes, *, expire: bool) -> Loading:
    """Load the keys of a file into the core; return the reader, with its summary and the offset of the file's end.

    Keys of types that the engine does not store are counted in ``left_out``. ``expire``: skip expired keys. Raises
    DamagedError if the file is damaged.
    """
    loading = Loading(
        data,
        core.databases,
        value_reader.makers(core.config, core.streams.new),
        now=core.changes.now if expire else None,
        left_out=left_out,
    )
    while loading.step():
        pass
    return loading
