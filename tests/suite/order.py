"""Order of the tests in the processes of a run: long ones first, and those with the Spark session in one process.

`--dist worksteal` gives each process an equal part of the list. A process that has finished its part takes tests from
the end of the longest remaining part. So tests at the front of a part stay in its process, and short ones are moved.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest


def arranged(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """Return the tests in the order for this number of processes.

    The first part starts with the tests that share a Spark session, and the other parts start with those marked as
    slow.
    """
    shared = [item for item in items if "spark" in getattr(item, "fixturenames", ())]
    placed = {id(item) for item in shared}
    long = [item for item in items if item.get_closest_marker("slow") and id(item) not in placed]
    placed |= {id(item) for item in long}
    short = [item for item in items if id(item) not in placed]
    fronts = [shared, *(long[at :: processes - 1] for at in range(processes - 1))]
    order: list[pytest.Item] = []
    for at, front in enumerate(fronts):
        part = (len(items) - len(order)) // (processes - at)
        fill = max(0, part - len(front))
        order += [*front, *short[:fill]]
        short = short[fill:]
    return order
