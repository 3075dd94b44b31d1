"""A machine's table that records which of its moves were made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class RecordingTable(dict[tuple[Any, Any], Any]):
    """A copy of `table`. `walked`: the pairs of state and event that were looked up."""

    def __init__(self, table: Mapping[tuple[Any, Any], Any]) -> None:
        super().__init__(table)
        self.walked: set[tuple[Any, Any]] = set()

    def get(self, key: tuple[Any, Any], default: Any = None) -> Any:
        """Return the next state and note the move."""
        self.walked.add(key)
        return super().get(key, default)
