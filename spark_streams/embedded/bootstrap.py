"""Runs a module of `engine` or `spark_streams` from a given directory, whatever else has that package's name.

The launcher and the supervisor start it by its path: `python -P bootstrap.py ROOT MODULE ARGUMENT...`. ROOT is the
directory (or zip archive) that holds the package. MODULE has a function `main`, which gets the arguments and returns
the exit status.

A user's own `engine/` or `engine.py`, in the working directory or on PYTHONPATH, would win over the installed package
in `python -m engine`. So this file loads the package from ROOT into `sys.modules` before anything imports it by name;
Python then finds all its modules beneath it. The order of `sys.path` stays as it is: ROOT may be site-packages, which
must not come before the standard library.

Imports nothing but the standard library, neither `engine` nor `spark_streams`. If a package that MODULE needs is not
installed, the process says `missing package NAME` on standard output and exits with status 1.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_DISTRIBUTION = "pystreams"


def load_package(name: str, root: str) -> None:
    """Put the package NAME that lies in ROOT into `sys.modules`."""
    spec = PathFinder.find_spec(name, [root])
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"there is no package {name} in {root}", name=_DISTRIBUTION)
    package = module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)


def main(root: str, module: str, arguments: list[str]) -> int:
    """Run the module; the exit status."""
    package = module.partition(".")[0]
    try:
        load_package(package, root)
        run = import_module(module).main
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", package):  # a broken installation: the traceback names the file
            raise
        sys.stdout.write(f"missing package {missing}\n")
        return 1
    status: int = run(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
