"""Imports pyspark and py4j from files instead of from Spark's zip files, in processes that Spark starts.

Spark puts zip files in `$SPARK_HOME/python/lib` first on the import path of these processes. Python stores no compiled
modules for a zip file, so each process compiles the modules again: 0.5 s for pyspark, 0.05 s for py4j. An application's
first streaming query waits for the start of about six such processes, every later query for one. Spark's installation
has the same modules as files, too; those of py4j only if it was installed with pip.

`pyspark_files.pth`, which is installed as `pystreams_pyspark.pth`, imports this module in processes with `pyspark.zip`
on their path. If the environment variable PYSTREAMS_PYSPARK_ZIP is set and not empty, the zip files are used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_PYSPARK, _PY4J = "pyspark", "py4j"
_LIBRARIES = ("python", "lib")  # directory of the zip files in Spark's home


class Finder:
    """Finds pyspark and py4j in the files of Spark's installation if they would be imported from its zip files."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the location of pyspark or py4j; None if another finder must find the module."""
        del path, target
        if name not in (_PYSPARK, _PY4J):
            return None
        found = PathFinder.find_spec(name)
        if found is None or found.origin is None:
            return None
        archive = Path(found.origin).parent.parent
        if archive.suffix != ".zip" or archive.parent.parts[-len(_LIBRARIES) :] != _LIBRARIES:
            return None
        home = archive.parents[len(_LIBRARIES)]
        directories = _with_pyspark(home) if name == _PYSPARK else _with_py4j(home, archive)
        files = PathFinder.find_spec(name, [*map(str, directories)])
        # pip's Spark also has a directory of scripts in `python/pyspark`. It is not a package, so it has no origin.
        return files if files is not None and files.origin is not None else None


def _with_pyspark(home: Path) -> list[Path]:
    """Return the directories that may contain pyspark's files.

    A distribution has the files in `python`. With pip, Spark's home is the package itself.
    """
    return [home / "python", home.parent] if home.name == _PYSPARK else [home / "python"]


def _with_py4j(home: Path, archive: Path) -> list[Path]:
    """Return the directory with py4j's files, if pip has installed the version of the zip file next to pyspark."""
    version = archive.stem.removesuffix("-src")  # such as py4j-0.10.9.9
    return [home.parent] if home.name == _PYSPARK and (home.parent / f"{version}.dist-info").is_dir() else []


if not os.environ.get("PYSTREAMS_PYSPARK_ZIP"):
    sys.meta_path.insert(0, Finder())
