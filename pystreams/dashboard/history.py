"""Many series of numbers over the last hour, in memory of a bounded size.

All series share a table of 32-bit numbers, with a row per series and a column per time step. If there is no room for
new series, they are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_FIRST_ROWS = 64
_CELL_BYTES = 4


@dataclass(frozen=True)
class Curve:
    """Values of one series over time. `at`: milliseconds since 1970, ascending; `values`: None for missing samples."""

    at: list[int]
    values: list[float | None]


class History:
    """Series of numbers by key.

    `span_ms`: retention of values in milliseconds. `step_ms`: minimum time between two values of a series, in
    milliseconds. `budget`: maximum size of the table in bytes.
    """

    def __init__(self, span_ms: int = 3_600_000, step_ms: int = 5_000, budget: int = 48 << 20) -> None:
        self.span_ms, self.step_ms, self._budget = span_ms, step_ms, budget
        self._columns = span_ms // step_ms
        self._table = self._empty(_FIRST_ROWS)
        self._times: list[int] = []
        self._rows: dict[Hashable, int] = {}
        self._free = list(range(_FIRST_ROWS))
        self._seen: dict[Hashable, int] = {}

    def _empty(self, rows: int) -> npt.NDArray[np.float32]:
        return np.full((rows, self._columns), math.nan, np.float32)

    @property
    def bytes(self) -> int:
        """Size of the table in bytes."""
        return int(self._table.nbytes)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, at: int, values: Mapping[Hashable, float | None]) -> None:
        """Add values for a time in milliseconds. Within a step, the last value of a series replaces earlier ones."""
        if self._times and at < self._times[-1]:
            at = self._times[-1]  # the server's clock went back: keep times ascending
        if not self._times or at - self._times[-1] >= self.step_ms:
            self._start_column(at)
        column = len(self._times) - 1
        for key, value in values.items():
            row = self._rows.get(key)
            if row is None:
                row = self._room(key)
                if row is None:
                    continue
            self._seen[key] = at
            self._table[row, column] = math.nan if value is None else value

    def of(self, key: Hashable) -> Curve:
        """Return one series, or an empty curve if there is no series with this key."""
        row = self._rows.get(key)
        if row is None:
            return Curve([], [])
        cells = self._table[row, : len(self._times)]
        known = np.flatnonzero(~np.isnan(cells))
        if not len(known):
            return Curve([], [])
        first = int(known[0])
        values = [None if math.isnan(value) else float(value) for value in cells[first:]]
        return Curve(self._times[first:], values)

    def _start_column(self, at: int) -> None:
        """Start a new column, and drop columns that are too old."""
        old = sum(1 for time in self._times if time <= at - self.span_ms)
        old = max(old, len(self._times) + 1 - self._columns)
        if old > 0:
            self._times = self._times[old:]
            self._table[:, : self._columns - old] = self._table[:, old:].copy()
            self._table[:, self._columns - old :] = math.nan
            self._forget(at - self.span_ms)
        self._times.append(at)

    def _forget(self, before: int) -> None:
        for key in [key for key, seen in self._seen.items() if seen < before]:
            row = self._rows.pop(key)
            del self._seen[key]
            self._table[row] = math.nan
            self._free.append(row)

    def _room(self, key: Hashable) -> int | None:
        """Return a row for a new series; None if there is no room."""
        if not self._free:
            rows = len(self._table)
            if 2 * rows * self._columns * _CELL_BYTES > self._budget:
                return None
            self._table = np.concatenate([self._table, self._empty(rows)])
            self._free = list(range(rows, 2 * rows))
        row = self._rows[key] = self._free.pop()
        return row
