"""The Lua sources of the sandbox, one file per part. ``engine.core.scripting.interpreter`` runs them.

``sandbox.lua`` runs first and then runs the other parts: the functions of Lua that scripts can use (``base``), the
libraries for scripts (``cjson``, ``cmsgpack``, ``struct`` and ``bit``; ``numbers`` is shared by the second and third),
the conversion of results to replies (``replies``), and the registration of functions (``registering``).
"""

from __future__ import annotations

from importlib.resources import files

#: The parts that ``sandbox.lua`` runs.
PARTS = ("base", "replies", "registering", "numbers", "cjson", "cmsgpack", "struct", "bit")


def source(name: str) -> bytes:
    """Return the source of a part, or of ``sandbox``."""
    return (files(__name__) / f"{name}.lua").read_bytes()
