"""Chart of the samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks import picture
from benchmarks.soak.samples import Sample

_MB = 1 << 20

#: Panel with its unit -> line -> function that returns its value in a sample.
PANELS: dict[str, dict[str, Callable[[Sample], float]]] = {
    "resident memory, MB": {"engine": lambda sample: sample.memory / _MB},
    "PING of another client, ms": {
        "p50": lambda sample: sample.ping_p50,
        "p99": lambda sample: sample.ping_p99,
        "longest": lambda sample: sample.ping_max,
    },
    "files, MB": {
        "log": lambda sample: sample.log / _MB,
        "snapshot": lambda sample: sample.snapshot / _MB,
        "being written": lambda sample: sample.temporary / _MB,
    },
    "number of": {"descriptors": lambda sample: sample.descriptors, "threads": lambda sample: sample.threads},
}


def svg(samples: Sequence[Sample], title: str) -> str:
    """Return the chart, with a point on each line for every sample."""
    panels = {
        panel: {name: [(sample.seconds / 60, show(sample)) for sample in samples] for name, show in lines.items()}
        for panel, lines in PANELS.items()
    }
    return picture.svg(panels, title, "", "minutes")
