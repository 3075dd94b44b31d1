"""Modules that are imported when one of their attributes is first used.

A process that starts for each query pays for every import, and most such processes use none of these modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import difflib
    import ssl

    import pyarrow.json as arrow_json
    from pyarrow import compute
else:

    class _Module:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            value = getattr(import_module(self._name), attribute)
            setattr(self, attribute, value)  # later accesses do not call this method
            return value

    arrow_json = _Module("pyarrow.json")
    compute = _Module("pyarrow.compute")
    difflib = _Module("difflib")
    ssl = _Module("ssl")

__all__ = ["arrow_json", "compute", "difflib", "ssl"]
