"""A state machine's table that records its transitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class RecordingTable(dict[tuple[Any, Any], Any]):
    """A copy of `table`; `walked` has the pairs of state and event that were looked up."""

    def __init__(self, table: Mapping[tuple[Any, Any], Any]) -> None:
        super().__init__(table)
        self.walked: set[tuple[Any, Any]] = set()

    def get(self, key: tuple[Any, Any], default: Any = None) -> Any:
        """Return the next state and record the transition."""
        self.walked.add(key)
        return super().get(key, default)
