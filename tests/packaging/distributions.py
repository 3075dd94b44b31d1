"""Fixtures that build the wheel and the sdist of this checkout, and virtual environments that contain the wheel.

No package index is needed: an environment links to the packages of the running Python, except pystreams itself and the
packages that a test leaves out.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests import ROOT


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and the sdist, once for all processes of the run, and return their directory."""
    base = tmp_path_factory.getbasetemp()
    directory = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "distributions"
    with directory.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            building = directory.with_suffix(".building")
            command = [sys.executable, "-m", "hatchling", "build", "--directory", str(building)]
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
            building.rename(directory)
    return directory


@pytest.fixture(scope="session")
def wheel(distributions: Path) -> Path:
    (found,) = distributions.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def sdist(distributions: Path) -> Path:
    (found,) = distributions.glob("*.tar.gz")
    return found


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a Python with the wheel and all dependencies, including Spark from pip."""
    return environment(tmp_path_factory.mktemp("installed"), wheel)


def install(wheel: Path, *where: str) -> None:
    """Install the wheel with pip, without its dependencies. `where` is pip's arguments for the target."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    interpreter, target = (where, ()) if where[0] == "--python" else ((), where)
    subprocess.run(
        [*pip, *interpreter, "install", "--no-deps", "--no-index", "--no-compile", *target, str(wheel)], check=True
    )


def environment(directory: Path, wheel: Path | None, left_out: Iterable[str] = ()) -> Path:
    """Create a virtual environment, with the wheel unless it is None, and return the path of its Python."""
    venv.create(directory, symlinks=True, with_pip=False)
    python = directory / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(directory), "platbase": str(directory)}))
    skipped = ("pystreams", "_pystreams", "pyspark_pystreams", *left_out)
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(skipped) and not (packages / entry.name).exists():
            (packages / entry.name).symlink_to(entry)
    if wheel is not None:
        install(wheel, "--python", str(python))
    return python


def surroundings(**changed: str) -> dict[str, str]:
    """Return environment variables for a program that must not depend on this checkout."""
    ours = ("PYTHONPATH", "PYSTREAMS_", "PYSPARK_", "SPARK_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | changed
