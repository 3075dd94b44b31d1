"""Processor time of processes and of all that descend from them, read from /proc.

A process that has ended counts with the one that waited for it, as Linux has it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def spent(root: int, without: int | None = None) -> dict[int, int]:
    """Processor time so far, in ticks, of a process and its descendants, by their IDs; with that of ended children."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    family = {root}
    while grown := {pid for pid, parent in parents.items() if parent in family and pid != without} - family:
        family |= grown
    return {pid: ticks[pid] for pid in family if pid in ticks}


def since(before: Mapping[int, int], after: Mapping[int, int]) -> float:
    """Seconds of processor time between two answers of `spent`."""
    return (sum(after.values()) - sum(before.values())) / _TICKS
