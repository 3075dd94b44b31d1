"""The Lua sources of the sandbox, one file per part. ``engine.core.scripting.interpreter`` runs them.

``sandbox.lua`` is the first and runs the others: the parts of Lua that scripts can use (``base``), their libraries
(``cjson``, ``cmsgpack`` and ``struct``, the latter two with ``numbers``, and ``bit``), the conversion of results to
replies (``replies``), and the registration of functions (``registering``). The only Python is the list of names.
"""

from __future__ import annotations

from importlib.resources import files

#: The parts that ``sandbox.lua`` runs.
PARTS = ("base", "replies", "registering", "numbers", "cjson", "cmsgpack", "struct", "bit")


def source(name: str) -> bytes:
    """Return the source of a part, or of ``sandbox``."""
    return (files(__name__) / f"{name}.lua").read_bytes()
