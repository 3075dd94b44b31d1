"""Chart of the samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks import picture
from benchmarks.soak.samples import Sample

_MB = 1 << 20

#: Panel with its unit -> line -> function that returns its value in a sample.
PANELS: dict[str, dict[str, Callable[[Sample], float]]] = {
    "resident memory, MB": {"engine": lambda one: one.memory / _MB},
    "PING of another client, ms": {
        "p50": lambda one: one.ping_p50,
        "p99": lambda one: one.ping_p99,
        "longest": lambda one: one.ping_max,
    },
    "files, MB": {
        "log": lambda one: one.log / _MB,
        "snapshot": lambda one: one.snapshot / _MB,
        "being written": lambda one: one.temporary / _MB,
    },
    "number of": {"descriptors": lambda one: one.descriptors, "threads": lambda one: one.threads},
}


def svg(samples: Sequence[Sample], title: str) -> str:
    """Return the chart, with a point on each line for every sample."""
    panels = {
        panel: {name: [(one.seconds / 60, show(one)) for one in samples] for name, show in lines.items()}
        for panel, lines in PANELS.items()
    }
    return picture.svg(panels, title, "", "minutes")
