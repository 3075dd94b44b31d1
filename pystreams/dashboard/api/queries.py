"""Spark queries, from the reports that StreamMonitor keeps in a stream."""

from __future__ import annotations

from typing import Any

from pystreams.dashboard.api.asked import Asked


def queries(asked: Asked) -> dict[str, Any]:
    """The last reports of each query."""
    del asked
    return {"rows": []}
