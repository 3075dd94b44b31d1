"""Processor time of processes and all their descendants, read from /proc.

Processes that ended between two readings are included if their parent has waited for them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


#: Process ID -> ticks of the process itself, and of the ended children that it has waited for.
Spent = Mapping[int, tuple[int, int]]


def spent(root: int, without: int | None = None) -> Spent:
    """Return the processor time so far of a process and its descendants, leaving out the process ``without``."""
    parents: dict[int, int] = {}
    ticks: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        process, children = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
        parents[pid], ticks[pid] = int(fields[1]), (process, children)
    family = {root}
    while grown := {pid for pid, parent in parents.items() if parent in family and pid != without} - family:
        family |= grown
    return {pid: ticks[pid] for pid in family if pid in ticks}


def since(before: Spent, after: Spent) -> float:
    """Return the seconds of processor time between two results of `spent`."""
    grown = {
        pid: [late - early for early, late in zip(before.get(pid, (0, 0)), after[pid], strict=True)] for pid in after
    }
    # A parent's ticks include all ticks of an ended child, so subtract the child's ticks at the first reading.
    ended = sum(children for _, children in grown.values()) - sum(
        sum(before[pid]) for pid in before.keys() - grown.keys()
    )
    return (sum(process for process, _ in grown.values()) + max(0, ended)) / _TICKS
