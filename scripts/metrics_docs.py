"""Write the metrics into docs/reference/metrics.md.

Run `python scripts/metrics_docs.py` after changing a metric. A test fails if the page differs.
"""

from __future__ import annotations

from collections.abc import Iterable

from pystreams.metrics import table
from pystreams.metrics.table import Metric
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
    """Return the current lists of metrics by subject, and the list of INFO fields with their metrics."""
    fields = set(table.OF_INFO.values())
    subjects = (
        ("Streams and groups", table.OF_STREAMS.values()),
        ("Spark queries", table.OF_QUERIES.values()),
        ("The server", [metric for metric in table.OF_SERVER if metric not in fields]),
        ("The exporter", table.OF_EXPORTER),
    )
    tables = "".join(f"\n## {title}\n\n{_lists(metrics)}" for title, metrics in subjects)
    lines = "".join(
        f"{metric.name}\n" if metric.name == f"redis_{field}" else f"{metric.name}={field}\n"
        for field, metric in table.OF_INFO.items()
    )
    legend = "Each line is a metric. Its field is the name without `redis_`, or the name after `=`:"
    return f"{tables}\n## Fields of INFO\n\n{legend}\n\n```text\n{lines}```\n\n"


if __name__ == "__main__":
    PART.write(written())
