"""RDB files on the disk: an image written to one, one read into a core.

The format itself is :mod:`engine.core.formats.rdb`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine.core.dispatch import Core
from engine.core.formats.rdb import reader, value_reader, writer
from engine.core.formats.rdb.reader import Loading, State, Summary
from engine.core.keyspace.image import Image
from engine.shell.durability.files import Files, write_all
from engine.shell.durability.formats.position import Position, from_about
from engine.shell.observation.reporting import LOG

#: Bytes in one read, and in one write.
_PIECE = 1 << 18
#: After so many bytes the disk is asked to catch up, lest it has all of them to write at the end.
_SYNC_EVERY = 64 << 20
#: In the background: seconds of work after which the event loop gets the GIL, and how long it has it for sure. A thread
#: that only lets go of the GIL has it back before the loop has noticed.
_WORK, _REST = 0.0004, 0.00005


def is_rdb(data: memoryview) -> bool:
    """Whether a file begins as an RDB file of some server."""
    return bytes(data[:16]).startswith(reader.MAGICS)


def taken_at(data: memoryview) -> int:
    """When an RDB file was taken, in milliseconds since the epoch; 0 where it does not say. DamagedError where its
    beginning is damaged.
    """
    return reader.beginning(bytes(data[:_PIECE])).taken_at


def position_of(data: memoryview) -> Position | None:
    """Where in a replication history the data of an RDB file are, if it says so."""
    return from_about(reader.beginning(bytes(data[:_PIECE])).about)


def give_way() -> Callable[[], None]:
    """What a thread beside the event loop calls often: it lets the loop run when it has worked for a while."""
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
    checksum: bool,
    about: Mapping[bytes, bytes] | None = None,
    check: Callable[[], None] = lambda: None,
    pause: Callable[[], None] = lambda: None,
) -> None:
    """Write an RDB file of this version to a new file, on the disk when this returns. ``about`` are further fields.

    ``check`` is called before each write: an OSError of it ends the writing. ``pause`` is called after each piece.
    """
    fd = files.create(path)
    try:
        gathered: list[bytes] = []
        size = not_synced = 0
        for piece in writer.write(image, version, checksum=checksum, about=about):
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


class RdbFiles:
    """Reads RDB files into one core, and counts what was read last."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.last = Summary()

    def facts(self) -> dict[str, Any]:
        """What INFO tells of the file that was read last."""
        return {
            "rdb_last_load_keys_expired": self.last.expired,
            "rdb_last_load_keys_loaded": self.last.keys,
            "engine_rdb_last_load_left_out": sum(self.last.left_out.values()),
        }

    def load(self, data: memoryview, *, expire: bool, merge: bool = False) -> int:
        """Put the keys of a file into the core; where the file ends. DamagedError where it is damaged, or holds what
        the engine does not have and ``load-unknown`` is ``error``.

        ``expire``: keys whose time has come are not taken. ``merge``: keys take the place of those that are there.
        """
        core = self._core
        loading = Loading(
            core.databases,
            value_reader.makers(core.config, core.streams.new),
            now=core.changes.now if expire else None,
            skip_unknown=core.config.text("load-unknown") == b"skip",
            merge=merge,
        )
        at = 0
        while (state := loading.step()) is not State.DONE:
            if state is State.HUNGRY:
                if at == len(data):
                    loading.end()
                loading.feed(bytes(data[at : at + _PIECE]))
                at = min(at + _PIECE, len(data))
        self.last = loading.summary
        core.functions.restore_later(loading.libraries)
        for kind, count in self.last.left_out.items():
            LOG.warning("left out as 'load-unknown skip' says: %d of the type %s", count, kind)
        return loading.offset
