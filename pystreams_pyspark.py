"""Imports pyspark from files instead of from Spark's zip file, in processes that Spark starts.

Spark puts `$SPARK_HOME/python/lib/pyspark.zip` first on the import path of these processes. Python stores no compiled
modules for a zip file, so each process compiles pyspark again, which takes half a second. An application's first
streaming query waits for the start of about six such processes, every later query for one. Spark's installation has
the same modules as files, too.

`pystreams_pyspark.pth` imports this module in processes with `pyspark.zip` on their path. If the environment variable
PYSTREAMS_PYSPARK_ZIP is set and not empty, pyspark is imported from the zip file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_NAME = "pyspark"
_ZIP = ("python", "lib", "pyspark.zip")  # in Spark's home


class Finder:
    """Finds pyspark in the files of Spark's installation if it would be imported from the zip file."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the location of pyspark; None if another finder must find the module."""
        del path, target
        if name != _NAME:
            return None
        found = PathFinder.find_spec(_NAME)
        if found is None or found.origin is None:
            return None
        archive = Path(found.origin).parent.parent
        if archive.parts[-len(_ZIP) :] != _ZIP:
            return None
        home = archive.parents[len(_ZIP) - 1]
        # A distribution has the files in `python`. With pip, Spark's home is the package itself.
        directories = [home / "python", home.parent] if home.name == _NAME else [home / "python"]
        files = PathFinder.find_spec(_NAME, [*map(str, directories)])
        # pip's Spark also has a directory of scripts in `python/pyspark`. It is not a package, so it has no origin.
        return files if files is not None and files.origin is not None else None


if not os.environ.get("PYSTREAMS_PYSPARK_ZIP"):
    sys.meta_path.insert(0, Finder())
