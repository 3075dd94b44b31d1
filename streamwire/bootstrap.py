"""Program that runs a module of this installation, even if the import path has another package of the same name.

It is started by its path: `python -P bootstrap.py ROOT MODULE ARGUMENT...`. ROOT is the directory (or zip archive) with
the packages. MODULE has a function `main`, which receives the arguments and returns the exit status.

With `python -m engine`, a user's own `engine/` or `engine.py`, in the working directory or on PYTHONPATH, would replace
the installed package. This program puts a meta path finder first, which loads the distribution's packages from ROOT.
ROOT itself is not added to `sys.path`: it may be site-packages, which must not precede the standard library.

Imports only the standard library. If a package that MODULE needs is not installed, the process prints
`missing package NAME` and exits with status 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module, resources
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

#: Top-level packages of the distribution.
PACKAGES = frozenset({"engine", "pystreams", "spark_streams", "streamclient", "streamwire"})
_DISTRIBUTION = "pystreams-spark"


def program(module: str) -> list[str]:
    """Return the command line that runs a module of this installation; arguments are appended to it."""
    path = Path(__file__).absolute()
    # A file in a zip archive cannot be run by its path, so its source is passed.
    source = [str(path)] if path.is_file() else ["-c", resources.files("streamwire").joinpath(path.name).read_text()]
    return [sys.executable, "-P", *source, str(path.parents[1]), module]


class _Installed:
    """Meta path finder for the packages in ROOT."""

    def __init__(self, root: str) -> None:
        self._root = root

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a top-level package of the distribution; None for any other name.

        Raises ModuleNotFoundError if ROOT does not contain the package.
        """
        del path, target
        if name not in PACKAGES:
            return None
        spec = PathFinder.find_spec(name, [self._root])
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError(f"there is no package {name} in {self._root}", name=_DISTRIBUTION)
        return spec


def main(root: str, module: str, arguments: list[str]) -> int:
    """Run the module and return its exit status."""
    sys.meta_path.insert(0, _Installed(root))
    try:
        run = import_module(module).main
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if not missing or missing in PACKAGES - {_DISTRIBUTION}:  # a broken installation: the traceback names the file
            raise
        sys.stdout.write(f"missing package {missing}\n")
        return 1
    status: int = run(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
