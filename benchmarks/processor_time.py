"""Processor time of processes and of all that descend from them, read from /proc.

What has ended in between counts, too, if its parent has waited for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


Spent = Mapping[int, tuple[int, int]]
"""By process ID: ticks of its own, and of the children that have ended and that it waited for."""


def spent(root: int, without: int | None = None) -> Spent:
    """Processor time so far of a process and its descendants."""
    parents: dict[int, int] = {}
    ticks: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        own, children = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
        parents[pid], ticks[pid] = int(fields[1]), (own, children)
    family = {root}
    while grown := {pid for pid, parent in parents.items() if parent in family and pid != without} - family:
        family |= grown
    return {pid: ticks[pid] for pid in family if pid in ticks}


def since(before: Spent, after: Spent) -> float:
    """Seconds of processor time between two answers of `spent`."""
    grown = {
        pid: [late - early for early, late in zip(before.get(pid, (0, 0)), after[pid], strict=True)] for pid in after
    }
    # What has ended counts with who waited for it, if anybody did, and with all that it had spent before.
    ended = sum(children for _, children in grown.values()) - sum(
        sum(before[pid]) for pid in before.keys() - grown.keys()
    )
    return (sum(own for own, _ in grown.values()) + max(0, ended)) / _TICKS
