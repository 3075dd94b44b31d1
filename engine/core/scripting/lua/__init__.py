"""The Lua sources of the sandbox, one file per part. ``engine.core.scripting.interpreter`` runs them.

``sandbox.lua`` runs first and then runs the other parts: Lua's functions for scripts (``base``), the libraries
(``cjson``, ``cmsgpack``, ``struct`` and ``bit``), the conversion of results to replies (``replies``), and the
registration of functions (``registering``). ``numbers`` is used by ``cmsgpack`` and ``struct``.
"""

from __future__ import annotations

from importlib.resources import files

#: The parts that ``sandbox.lua`` runs.
PARTS = ("base", "replies", "registering", "numbers", "cjson", "cmsgpack", "struct", "bit")


def source(name: str) -> bytes:
    """Return the source of a part, or of ``sandbox``."""
    return (files(__name__) / f"{name}.lua").read_bytes()
