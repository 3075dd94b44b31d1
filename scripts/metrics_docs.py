"""Write the metrics into docs/reference/metrics.md.

Run `python scripts/metrics_docs.py` after changing a metric. A test fails if the page differs.
"""

from __future__ import annotations

from collections.abc import Iterable

from pystreams import metrics
from pystreams.metrics import Metric
from scripts.generated import ROOT, Part

PART = Part(ROOT / "docs" / "reference" / "metrics.md", r"<!-- metrics: .*? -->\n", "<!-- end of metrics -->")


def _lists(metrics: Iterable[Metric]) -> str:
    """Return one list for each set of labels, in the order of their first occurrence."""
    groups: dict[tuple[str, ...], list[Metric]] = {}
    for metric in metrics:
        groups.setdefault(metric.labels, []).append(metric)
    blocks = []
    for labels, members in groups.items():
        head = f"With {' '.join(f'`{label}`' for label in labels)}:\n\n" if labels else ""
        blocks.append(head + "".join(f"* `{metric.name}`: {metric.help.rstrip('.')}\n" for metric in members))
    return "\n".join(blocks)


def written() -> str:
    """Return the current lists of metrics by subject."""
    subjects = (
        ("Streams and groups", metrics.OF_STREAMS.values()),
        ("Spark queries", metrics.OF_QUERIES.values()),
        ("The server", metrics.OF_SERVER),
        ("The exporter", metrics.OF_EXPORTER),
    )
    return "".join(f"\n## {title}\n\n{_lists(members)}" for title, members in subjects) + "\n"


if __name__ == "__main__":
    PART.write(written())
