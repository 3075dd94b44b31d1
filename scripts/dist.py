"""Build the distributions of the last commit into dist/, then check and install them: `make dist`.

dist/ contains the wheel, the sdist, an SBOM (CycloneDX JSON) and SHA256SUMS. Uncommitted changes are not included.
Wheel and sdist are built twice, the second time from the sdist, in another folder, with another umask and time zone.
Both builds must give the same bytes. Times in the archives are the time of the commit (SOURCE_DATE_EPOCH), so the same
commit, hatchling and zlib give the same bytes.

Wheel and sdist are installed on each supported Python that is found. The SBOM lists the packages of an installation
with all extras for users, without the test kit, as resolved on the newest Python on the day of the build.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Supported Pythons, the newest last. tests/packaging compares them with the classifiers.
PYTHONS = ("3.11", "3.12", "3.13")
#: Extras that are installed, without Spark.
EXTRAS = "engine,formats,dashboard,files"

#: First steps of a user: add an entry to the embedded engine. Prints the path of the package.
_EMBEDDED = """
import spark_streams
from spark_streams.embedded import launcher
client = launcher.connect()
client.xadd("s", {"n": 1})
assert client.xlen("s") == 1
print(spark_streams.__file__)
"""
#: A batch written and read by Spark, which finds the data source without registration.
_SPARK = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
spark.range(5).write.format("pystreams").mode("append").option("stream", "s").save()
rows = spark.read.format("pystreams").option("stream", "s").schema("id long").load().collect()
assert sorted(row.id for row in rows) == [0, 1, 2, 3, 4], rows
spark.stop()
"""


def _run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Return a command's standard output. If the command fails, exit with its output."""
    ours = ("PYTHONPATH", "PYSTREAMS_", "PYSPARK_", "SPARK_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=inherited | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def _unpack(archive: Path, directory: Path) -> None:
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):  # available in Python 3.11 since 3.11.4
            opened.extraction_filter = tarfile.data_filter
        opened.extractall(directory)  # noqa: S202 - archives made here


def build(source: Path, target: Path, epoch: str, zone: str) -> list[Path]:
    """Build wheel and sdist of a source tree, and return their sorted paths."""
    hatchling = (sys.executable, "-m", "hatchling", "build", "--directory", target)
    _run(*hatchling, cwd=source, SOURCE_DATE_EPOCH=epoch, TZ=zone)
    return sorted(path for path in target.iterdir() if path.suffix in (".whl", ".gz"))


def build_twice(work: Path, target: Path) -> list[Path]:
    """Build the last commit, then build again from the sdist. Return the files of the first build, or exit if the
    second build has other bytes.
    """
    epoch = _run("git", "log", "-1", "--format=%ct").strip()
    _run("git", "archive", "--output", work / "commit.tar", "HEAD")
    commit, unpacked = work / "commit", work / "unpacked"
    _unpack(work / "commit.tar", commit)
    first = build(commit, target, epoch, "UTC")
    (sdist,) = (path for path in first if path.suffix == ".gz")
    before = os.umask(0o077)
    try:
        _unpack(sdist, unpacked)
        (source,) = unpacked.iterdir()
        second = build(source, work / "second", epoch, "Asia/Kathmandu")
    finally:
        os.umask(before)
    if [(path.name, digest(path)) for path in first] != [(path.name, digest(path)) for path in second]:
        sys.exit(f"two builds of the same commit differ: {list(map(digest, first))}, {list(map(digest, second))}")
    return first


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_tags(version: str) -> None:
    """Exit if the commit has a release tag of another version."""
    wrong = [tag for tag in _run("git", "tag", "--points-at", "HEAD", "v*").split() if tag != f"v{version}"]
    if wrong:
        sys.exit(f"the commit has the tag {', '.join(wrong)}, and the version is {version}")


def interpreters(every: bool) -> dict[str, Path]:
    """Return the installed Pythons by version. Print a line for each missing Python, or exit if `every` is set."""
    found = {}
    for version in PYTHONS:
        done = subprocess.run([ROOT / "scripts" / "find-python", version], capture_output=True, text=True, check=False)
        if done.returncode:
            if every:
                sys.exit(f"Python {version} is required: {done.stderr.strip()}")
            print(f"Python {version}: SKIPPED, {done.stderr.strip()}", flush=True)
        else:
            found[version] = Path(done.stdout.strip())
    return found


def environment(directory: Path, python: Path, requirement: str) -> Path:
    """Create a virtual environment with the requirement from the package index, and return its Python."""
    _run(python, "-m", "venv", directory)
    made = directory / "bin" / "python"
    _run(made, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", requirement)
    return made


def check_version(python: Path, version: str, work: Path) -> None:
    """Exit if the command line of an installation does not start, or reports another version."""
    output = _run(python.with_name("pystreams"), "--version", cwd=work).split()
    if output[-1] != version:
        sys.exit(f"{python}: pystreams --version says {output}, not {version}")


def install(work: Path, wheel: Path, sdist: Path, version: str, found: dict[str, Path]) -> Path:
    """Install and try wheel and sdist on each Python. Return the Python of the environment with Spark."""
    newest = max(found, key=PYTHONS.index)
    for name, python in found.items():
        extras = f"spark,{EXTRAS}" if name == newest else EXTRAS
        of_wheel = environment(work / f"wheel-{name}", python, f"pystreams-spark[{extras}] @ {wheel.as_uri()}")
        check_version(of_wheel, version, work)
        path = _run(of_wheel, "-c", _EMBEDDED, cwd=work).strip()
        if not path.startswith(str(work)):
            sys.exit(f"the package was imported from {path}, not from the environment")
        if name == newest:
            _run(of_wheel, "-c", _SPARK, cwd=work, PYSPARK_PYTHON=str(of_wheel))
        check_version(environment(work / f"sdist-{name}", python, str(sdist)), version, work)
        print(f"Python {name}: wheel[{extras}] and sdist installed and tried ({python})", flush=True)
    return work / f"wheel-{newest}" / "bin" / "python"


def write_sbom(python: Path, target: Path) -> int:
    """Write the SBOM of an environment, and return its number of components."""
    epoch = _run("git", "log", "-1", "--format=%ct").strip()
    tool = (Path(sys.executable).with_name("cyclonedx-py"), "environment", "--output-reproducible", "--of", "JSON")
    _run(*tool, "--pyproject", ROOT / "pyproject.toml", "-o", target, python, SOURCE_DATE_EPOCH=epoch)
    sbom = json.loads(target.read_text())
    # pip belongs to the environment, not to an installation of pystreams.
    sbom["components"] = [each for each in sbom["components"] if each["name"] not in ("pip", "setuptools")]
    left = {each["bom-ref"] for each in sbom["components"]} | {sbom["metadata"]["component"]["bom-ref"]}
    sbom["dependencies"] = [each for each in sbom["dependencies"] if each["ref"] in left]
    target.write_text(json.dumps(sbom, indent=2, sort_keys=True) + "\n")
    return len(sbom["components"])


def main() -> None:
    """Build, check, install, and print the hashes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--directory", type=Path, default=ROOT / "dist", help="directory for the files, which is emptied first"
    )
    parser.add_argument("--build-only", action="store_true", help="skip twine, installations and the SBOM")
    parser.add_argument("--every-python", action="store_true", help="fail if a supported Python is missing")
    given = parser.parse_args()
    target: Path = given.directory.resolve()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    if changed := _run("git", "status", "--porcelain", "--untracked-files=no").splitlines():
        print(f"{len(changed)} uncommitted changes are not included")
    found = {} if given.build_only else interpreters(given.every_python)
    if not found and not given.build_only:
        sys.exit(f"none of Python {', '.join(PYTHONS)} was found: the distributions cannot be tried")
    with tempfile.TemporaryDirectory(prefix="pystreams-dist-", ignore_cleanup_errors=True) as directory:
        work = Path(directory).resolve()
        built = build_twice(work, target)
        wheel, sdist = sorted(built, key=lambda path: path.suffix == ".gz")
        version = wheel.name.split("-")[1]
        check_tags(version)
        if not given.build_only:
            print(_run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist).strip())
            sbom = target / f"pystreams_spark-{version}.cdx.json"
            count = write_sbom(install(work, wheel, sdist, version, found), sbom)
            print(f"{sbom.name}: {count} components")
            built.append(sbom)
    sums = "".join(f"{digest(path)}  {path.name}\n" for path in sorted(built))
    (target / "SHA256SUMS").write_text(sums)
    print(sums, end="")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
