"""`streamwire.pyspark_files`: in processes that Spark starts, pyspark and py4j come from files, not zip files."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

from tests.packaging.distributions import surroundings
from tests.suite.jvm import spark_home

_PROGRAM = """
import importlib, sys
before = [*sys.meta_path]
package = importlib.import_module(sys.argv[1])
first = package.__file__
importlib.reload(package)
assert first == package.__file__, package.__file__
assert before == sys.meta_path, sys.meta_path
print(first)
"""


def imported(installed: Path, *path: Path, package: str = "pyspark", **variables: str) -> Path:
    """Return the file from which a process with this PYTHONPATH imports the package, at first and again.

    An import must not change the list of finders, because imports in other threads iterate over it.
    """
    variables["PYTHONPATH"] = os.pathsep.join(map(str, path))
    result = subprocess.run(
        [str(installed), "-c", _PROGRAM, package],
        env=surroundings(**variables),
        cwd=installed.parent,
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


def test_pyspark_of_a_distribution_is_imported_from_its_files(installed: Path, tmp_path: Path) -> None:
    """pyspark comes from $SPARK_HOME/python, although the zip file is on the path, and another pyspark is installed."""
    archive = home(tmp_path / "spark-4.2.0")
    assert imported(installed, archive) == tmp_path / "spark-4.2.0" / "python" / "pyspark" / "__init__.py"


def test_pyspark_of_pip_is_imported_from_its_files(installed: Path) -> None:
    """pyspark comes from the package that contains the zip file."""
    package = spark_home()
    assert imported(installed, package / "python" / "lib" / "pyspark.zip") == package / "__init__.py"


def test_py4j_of_pip_is_imported_from_its_files(installed: Path) -> None:
    """py4j comes from its package if the zip file of the same version is on the path."""
    package = spark_home()
    (archive,) = (package / "python" / "lib").glob("py4j-*-src.zip")
    path = package / "python" / "lib" / "pyspark.zip", archive
    assert imported(installed, *path, package="py4j") == package.parent / "py4j" / "__init__.py"


def test_py4j_of_another_version_is_imported_from_the_zip_file(installed: Path, tmp_path: Path) -> None:
    """The zip file is used if py4j's files beside pyspark have another version, and in a distribution of Spark."""
    package = tmp_path / "site-packages" / "pyspark"
    (package.parent / "py4j").mkdir(parents=True)
    (package.parent / "py4j" / "__init__.py").touch()
    (package.parent / "py4j-0.10.9.7.dist-info").mkdir()
    for base in (package, tmp_path / "spark-4.2.0"):
        archive = home(base)
        py4j = archive.with_name("py4j-0.10.9.9-src.zip")
        with zipfile.ZipFile(py4j, "w") as made:
            made.writestr("py4j/__init__.py", "")
        assert imported(installed, archive, py4j, package="py4j") == py4j / "py4j" / "__init__.py"
    (package.parent / "py4j-0.10.9.9.dist-info").mkdir()
    path = package / "python" / "lib"
    found = imported(installed, path / "pyspark.zip", path / py4j.name, package="py4j")
    assert found == package.parent / "py4j" / "__init__.py"


def test_pyspark_without_files_is_imported_from_the_zip_file(installed: Path, tmp_path: Path) -> None:
    """A zip file whose Spark has no files is used, as is a zip file that is not in a home of Spark."""
    archive = home(tmp_path / "spark", has_files=False)
    assert imported(installed, archive) == archive / "pyspark" / "__init__.py"
    sent = archive.rename(tmp_path / "pyspark.zip")
    assert imported(installed, sent) == sent / "pyspark" / "__init__.py"


def test_a_pyspark_before_the_zip_file_is_imported(installed: Path, tmp_path: Path) -> None:
    """A pyspark that is on the path before the zip file is used, as without this package."""
    archive = home(tmp_path / "spark")
    (tmp_path / "first" / "pyspark").mkdir(parents=True)
    (tmp_path / "first" / "pyspark" / "__init__.py").touch()
    assert imported(installed, tmp_path / "first", archive) == tmp_path / "first" / "pyspark" / "__init__.py"


def test_the_environment_variable_keeps_the_zip_file(installed: Path, tmp_path: Path) -> None:
    """With PYSTREAMS_PYSPARK_ZIP, pyspark is imported from the zip file."""
    archive = home(tmp_path / "spark")
    assert imported(installed, archive, PYSTREAMS_PYSPARK_ZIP="1") == archive / "pyspark" / "__init__.py"


def test_other_processes_do_not_import_the_module(installed: Path) -> None:
    """In a process without `pyspark.zip` on its path, the module is not imported."""
    program = "import sys; assert 'streamwire.pyspark_files' not in sys.modules"
    subprocess.run([str(installed), "-c", program], env=surroundings(), check=True)
