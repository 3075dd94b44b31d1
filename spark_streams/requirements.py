"""Packages that the data source needs beyond those of the command line: the error if one is missing."""

from __future__ import annotations

import sys


def explained(missing: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return the error to raise in place of this one: which package is missing in which Python, and what to install."""
    package = (missing.name or "").partition(".")[0]
    extra = "spark" if package in ("pyspark", "py4j") else "engine"
    beside = " Where Spark has been installed already, run in its Python instead." if extra == "spark" else ""
    return ModuleNotFoundError(
        f"The Spark data source pystreams needs the package '{package}', which {sys.executable} does not have. "
        f"Install it: pip install 'pystreams[{extra}]'.{beside}",
        name=missing.name,
    )
