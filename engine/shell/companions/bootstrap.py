"""Runs the command line `pystreams` from a given directory, whatever else has that name.

The engine starts it by its path: `python -P bootstrap.py ROOT ARGUMENT...`. ROOT is the directory that holds the
packages. They are loaded from there before anything imports them by name, so that a user's own folder or module of one
of these names cannot stand in their place. Imports nothing of the engine.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_PACKAGES = ("spark_streams", "pystreams")


def main(root: str, arguments: list[str]) -> None:
    """Run `pystreams` with the arguments; ends the process."""
    for name in _PACKAGES:
        spec = PathFinder.find_spec(name, [root])
        if spec is None or spec.loader is None:
            sys.exit(f"there is no package {name} in {root}")
        package = module_from_spec(spec)
        sys.modules[name] = package
        spec.loader.exec_module(package)
    sys.argv = ["pystreams", *arguments]
    import_module("pystreams.__main__").main()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
