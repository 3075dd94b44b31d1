"""`pystreams_pyspark`: in processes that Spark starts, pyspark is imported from files, not from Spark's zip file."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.packaging.distributions import environment, surroundings
from tests.suite.jvm import spark_home

_PROGRAM = """
import importlib, sys
before = [*sys.meta_path]
import pyspark
first = pyspark.__file__
importlib.reload(pyspark)
assert first == pyspark.__file__, pyspark.__file__
assert before == sys.meta_path, sys.meta_path
print(first)
"""


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a Python with the wheel and all dependencies, including Spark from pip."""
    return environment(tmp_path_factory.mktemp("environment"), wheel)


def imported(python: Path, *path: Path, cwd: Path | None = None, **variables: str) -> Path:
    """Return the file from which a process with this PYTHONPATH imports pyspark, at first and again.

    An import must not change the list of finders, because imports in other threads iterate over it.
    """
    variables["PYTHONPATH"] = os.pathsep.join(map(str, path))
    result = subprocess.run(
        [str(python), "-c", _PROGRAM],
        env=surroundings(**variables),
        cwd=cwd or python.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stderr == ""
    return Path(result.stdout.strip())


def home(directory: Path, *, has_files: bool = True) -> Path:
    """Create a distribution of Spark, and return the path of its zip file."""
    archive = directory / "python" / "lib" / "pyspark.zip"
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("pyspark/__init__.py", "")
    if has_files:
        (directory / "python" / "pyspark").mkdir()
        (directory / "python" / "pyspark" / "__init__.py").touch()
    return archive


def test_pyspark_of_a_distribution_is_imported_from_its_files(python: Path, tmp_path: Path) -> None:
    """pyspark comes from $SPARK_HOME/python, although the zip file is on the path, and another pyspark is installed."""
    archive = home(tmp_path / "spark-4.2.0")
    assert imported(python, archive) == tmp_path / "spark-4.2.0" / "python" / "pyspark" / "__init__.py"


def test_pyspark_of_pip_is_imported_from_its_files(python: Path) -> None:
    """pyspark comes from the package that contains the zip file."""
    package = spark_home()
    assert imported(python, package / "python" / "lib" / "pyspark.zip") == package / "__init__.py"


def test_pyspark_without_files_is_imported_from_the_zip_file(python: Path, tmp_path: Path) -> None:
    """A zip file whose Spark has no files is used, as is a zip file that is not in a home of Spark."""
    archive = home(tmp_path / "spark", has_files=False)
    assert imported(python, archive) == archive / "pyspark" / "__init__.py"
    sent = archive.rename(tmp_path / "pyspark.zip")
    assert imported(python, sent) == sent / "pyspark" / "__init__.py"


def test_a_pyspark_before_the_zip_file_is_imported(python: Path, tmp_path: Path) -> None:
    """A pyspark that is on the path before the zip file is used, as without this package."""
    archive = home(tmp_path / "spark")
    (tmp_path / "first" / "pyspark").mkdir(parents=True)
    (tmp_path / "first" / "pyspark" / "__init__.py").touch()
    assert imported(python, tmp_path / "first", archive) == tmp_path / "first" / "pyspark" / "__init__.py"


def test_the_environment_variable_keeps_the_zip_file(python: Path, tmp_path: Path) -> None:
    """With PYSTREAMS_PYSPARK_ZIP, pyspark is imported from the zip file."""
    archive = home(tmp_path / "spark")
    assert imported(python, archive, PYSTREAMS_PYSPARK_ZIP="1") == archive / "pyspark" / "__init__.py"


def test_other_processes_do_not_import_the_module(python: Path) -> None:
    """In a process without `pyspark.zip` on its path, the module is not imported."""
    program = "import sys; assert 'pystreams_pyspark' not in sys.modules"
    subprocess.run([str(python), "-c", program], env=surroundings(), check=True)
