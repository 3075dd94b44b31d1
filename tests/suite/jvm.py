"""Starting Spark for tests: a JVM that lives for a minute or two, and the Python processes that it starts.

Without the optimizing compiler, which would compete for two cores, and without verifying Spark's own classes, a driver
starts with half the CPU time. A Python process of Spark imports `pyspark` from `python/lib/pyspark.zip` of SPARK_HOME,
if it exists. Nothing in it is compiled, so each process compiles it again, for more than half a second. Without the zip
it imports the same files from the installation of pyspark.
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
    """Each Spark that this process or its children start from now on starts quickly: Spark reads these variables."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", QUICK)
    if "SPARK_HOME" not in os.environ:
        os.environ["SPARK_HOME"] = str(_home_without_zip())


def _home_without_zip() -> Path:
    """A home of Spark's that has its programs alone, until this process ends."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(tempfile.mkdtemp(prefix="ps-spark-home-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in ("bin", "jars"):
        (home / name).symlink_to(Path(spec.origin).parent / name)
    return home
