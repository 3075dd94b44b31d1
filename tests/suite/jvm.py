"""Starting Spark quickly for tests: the JVM, and the Python processes that it starts.

Without the optimizing compiler, which would compete for two cores, and without verifying Spark's own classes, a driver
starts with half the CPU time. A Python process of Spark imports `pyspark` from `python/lib/pyspark.zip` of SPARK_HOME,
if that exists. The zip has no compiled modules, so each process compiles them again, which takes more than half a
second. Without the zip it imports the same files from the installation of pyspark.
"""

import atexit
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


def start_quickly() -> None:
    """Make each Spark that this process or its children start from now on start quickly, by environment variables."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", QUICK)
    if "SPARK_HOME" not in os.environ:
        os.environ["SPARK_HOME"] = str(_home_without_zip())


def _home_without_zip() -> Path:
    """Return a SPARK_HOME with only its programs, which is removed when this process ends."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(tempfile.mkdtemp(prefix="ps-spark-home-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in ("bin", "jars"):
        (home / name).symlink_to(Path(spec.origin).parent / name)
    return home
