"""The Lua that the sandbox consists of, a file for each part of it: :mod:`engine.core.scripting.interpreter` runs them.

``sandbox.lua`` is the first one and runs the others: what scripts reach of Lua (``base``), their libraries (``cjson``,
``cmsgpack`` and ``struct``, both made with ``numbers``, ``bit``), how results become replies (``replies``), how a
library registers its functions (``registering``). It owns no Python but their names.
"""

from __future__ import annotations

from importlib.resources import files

#: The parts that ``sandbox.lua`` runs.
PARTS = ("base", "replies", "registering", "numbers", "cjson", "cmsgpack", "struct", "bit")


def source(name: str) -> bytes:
    """The text of a part, or of ``sandbox``."""
    return (files(__name__) / f"{name}.lua").read_bytes()
