"""The Lua sources of the sandbox, one file per part. ``engine.core.scripting.interpreter`` runs them.

``sandbox.lua`` runs first and then runs the other parts. ``base`` contains Lua's functions for scripts. ``cjson``,
``cmsgpack``, ``struct`` and ``bit`` are the libraries, and ``numbers`` is used by ``cmsgpack`` and ``struct``.
``replies`` converts results to replies, and ``registering`` registers functions.
"""

from __future__ import annotations

from importlib.resources import files

#: The parts that ``sandbox.lua`` runs.
PARTS = ("base", "replies", "registering", "numbers", "cjson", "cmsgpack", "struct", "bit")


def source(name: str) -> bytes:
    """Return the source of a part, or of ``sandbox``."""
    return (files(__name__) / f"{name}.lua").read_bytes()
