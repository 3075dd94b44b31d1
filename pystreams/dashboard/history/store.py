"""History on disk: one-minute means of every series, for a day by default, in one SQLite file of bounded size.

A separate thread writes, and every reader opens the file itself. So neither the sampler nor a request waits for a
write. Each minute is one row with the values of all series, concatenated as 32-bit numbers. A full disk or a damaged
file is logged once. Until writing works again, the history is kept only in memory.
"""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
import queue
import sqlite3
import threading
from collections.abc import Hashable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from pystreams.dashboard.history.series import Curve

_log = logging.getLogger("pystreams.dashboard")

STEP_MS = 60_000
BUDGET = 256 << 20
_MOST_SERIES = 200_000  # maximum number of series; further series are ignored
_QUEUE = 8  # maximum number of minutes that wait to be written; further minutes are dropped
_PATIENCE = 5.0  # timeout in seconds: for a lock of the file, and for the writer to stop
_CELL = np.dtype("<f4")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS series (number INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, since INTEGER NOT NULL,
                                   seen INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS minutes (at INTEGER PRIMARY KEY, data BLOB NOT NULL);
"""

Values = Mapping[Hashable, float | None]


class Store:
    """The file in a folder. `span_ms`: retention in milliseconds; `budget`: maximum size of the file in bytes."""

    def __init__(self, folder: Path, span_ms: int = 86_400_000, budget: int = BUDGET) -> None:
        self.path = folder / "history.sqlite"
        self.span_ms, self._budget = span_ms, budget
        self._minutes: queue.Queue[tuple[int, dict[str, float]] | None] = queue.Queue(_QUEUE)
        self._sums: dict[Hashable, list[float]] = {}
        self._minute: int | None = None
        self._numbers: dict[str, int] = {}
        self._well = True
        self._lock: int | None = None
        self._thread = threading.Thread(target=self._write, name="history", daemon=True)

    def start(self) -> bool:
        """Start writing. Return False if the file cannot be locked, usually because another process writes it."""
        try:
            self._lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as cause:
            _log.warning("The history in %s is kept only in memory: %s.", self.path, cause.strerror or cause)
            self._unlock()
            return False
        self._thread.start()
        return True

    def stop(self) -> None:
        """Write the incomplete last minute, and stop."""
        if self._lock is None:
            return
        self._hand_over()
        with suppress(queue.Full):
            self._minutes.put(None, timeout=_PATIENCE)
        self._thread.join(_PATIENCE)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # --- the sampler's side -------------------------------------------------------------------------------------------

    def add(self, at: int, values: Values) -> None:
        """Add the values of one sample, without waiting. `at`: time of the sample in milliseconds since 1970."""
        minute = at - at % STEP_MS
        if self._minute is not None and minute != self._minute:
            self._hand_over()
        self._minute = minute
        for key, value in values.items():
            if value is not None:
                known = self._sums.setdefault(key, [0.0, 0])
                known[0] += value
                known[1] += 1

    def _hand_over(self) -> None:
        if self._minute is None or not self._sums:
            return
        means = {_text(key): total / number for key, (total, number) in self._sums.items()}
        self._sums = {}
        try:
            self._minutes.put_nowait((self._minute, means))
        except queue.Full:
            self._became(False, "the disk is too slow")

    # --- the writer's side --------------------------------------------------------------------------------------------

    def _write(self) -> None:
        connection: sqlite3.Connection | None = None
        # Create the file now, because readers need it. After a failure, the first write tries again and logs it.
        with suppress(sqlite3.Error, OSError):
            connection = self._opened()
        while (minute := self._minutes.get()) is not None:
            try:
                if connection is None:
                    connection = self._opened()
                self._keep(connection, *minute)
                self._became(True)
            except (sqlite3.Error, OSError) as cause:
                self._became(False, str(cause))
                if connection is not None:
                    with suppress(sqlite3.Error):
                        connection.close()
                    connection = None
                if _is_damage(cause):
                    self._put_aside()
        if connection is not None:
            connection.close()

    def _opened(self) -> sqlite3.Connection:
        # SQLite would create the file with mode 0644: other users could read it.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
        try:
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(f"PRAGMA journal_size_limit={self._budget // 8}")
            (size,) = connection.execute("PRAGMA page_size").fetchone()
            connection.execute(f"PRAGMA max_page_count={max(16, self._budget // size)}")
            connection.executescript(_SCHEMA)
            self._numbers = dict(connection.execute("SELECT key, number FROM series"))
        except BaseException:
            connection.close()
            raise
        return connection

    def _keep(self, connection: sqlite3.Connection, at: int, means: Mapping[str, float]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._trim(connection, at)
            new = [key for key in means if key not in self._numbers][: max(0, _MOST_SERIES - len(self._numbers))]
            taken = set(self._numbers.values())
            free = (number for number in range(len(taken) + len(new)) if number not in taken)
            made = dict(zip(new, free, strict=False))
            connection.executemany(
                "INSERT INTO series VALUES (?, ?, ?, ?)", [(number, key, at, at) for key, number in made.items()]
            )
            self._numbers |= made
            known = [(self._numbers[key], value) for key, value in means.items() if key in self._numbers]
            connection.executemany("UPDATE series SET seen = ? WHERE number = ?", [(at, number) for number, _ in known])
            data = np.full(1 + max((number for number, _ in known), default=-1), math.nan, _CELL)
            for number, value in known:
                data[number] = value
            connection.execute("INSERT OR REPLACE INTO minutes VALUES (?, ?)", (at, data.tobytes()))
            connection.execute("COMMIT")
        except BaseException:
            self._numbers = {}
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
                self._numbers = dict(connection.execute("SELECT key, number FROM series"))
            raise
        connection.execute("PRAGMA incremental_vacuum").fetchall()

    def _trim(self, connection: sqlite3.Connection, at: int) -> None:
        """Delete minutes and series that are too old, and minutes after `at`. If the file exceeds seven eighths of its
        budget, also delete the oldest eighth of the minutes.
        """
        connection.execute("DELETE FROM minutes WHERE at <= ? OR at > ?", (at - self.span_ms, at))
        (pages,), (size,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size"))
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        if (pages - free) * size > self._budget * 7 // 8:
            connection.execute(
                "DELETE FROM minutes WHERE at IN (SELECT at FROM minutes ORDER BY at "
                "LIMIT 1 + (SELECT COUNT(*) FROM minutes) / 8)"
            )
        connection.execute("DELETE FROM series WHERE seen <= ?", (at - self.span_ms,))
        if connection.execute("SELECT changes()").fetchone()[0]:
            self._numbers = dict(connection.execute("SELECT key, number FROM series"))

    def _put_aside(self) -> None:
        """Rename a damaged file, so that the next minute starts a new file."""
        for suffix in ("", "-wal", "-shm"):
            damaged = Path(f"{self.path}{suffix}")
            with suppress(OSError):
                damaged.replace(f"{self.path}.damaged{suffix}")

    def _became(self, well: bool, reason: str = "") -> None:
        """Log when writing stops working, or works again."""
        if well != self._well:
            self._well = well
            if well:
                _log.warning("The history in %s is written again.", self.path)
            else:
                _log.warning("The history in %s cannot be written, and is kept only in memory: %s.", self.path, reason)

    # --- readers ------------------------------------------------------------------------------------------------------

    def curve(self, key: Hashable, after: int, before: int) -> Curve:
        """Return the means of one series within (after, before), in milliseconds; an empty curve if there are none."""
        try:
            with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=1.0)) as connection:
                found = connection.execute("SELECT number, since FROM series WHERE key = ?", (_text(key),)).fetchone()
                if found is None:
                    return Curve([], [])
                rows = connection.execute(
                    "SELECT at, substr(data, ?, 4) FROM minutes WHERE at > ? AND at >= ? AND at < ? ORDER BY at",
                    (1 + 4 * found[0], after, found[1], before),
                ).fetchall()
        except sqlite3.Error:
            return Curve([], [])
        values = [float(np.frombuffer(cell, _CELL)[0]) if len(cell) == 4 else math.nan for _, cell in rows]
        return Curve([at for at, _ in rows], [None if math.isnan(value) else value for value in values])


def _text(key: Hashable) -> str:
    """Return a key as JSON."""
    parts: Any = key
    return json.dumps([part.decode("latin-1") if isinstance(part, bytes) else part for part in parts])


def _is_damage(cause: Exception) -> bool:
    return isinstance(cause, sqlite3.DatabaseError) and any(
        word in str(cause) for word in ("malformed", "not a database", "no such table", "no such column")
    )
