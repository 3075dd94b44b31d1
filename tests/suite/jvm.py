"""Spark's installation, and starting its JVM quickly for tests.

Without the optimizing compiler, which would compete for two cores, and without verifying Spark's own classes, a driver
starts with half the CPU time.
"""

import importlib.util
import os
from pathlib import Path

QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


def start_quickly() -> None:
    """Make each JVM that this process or its children start from now on start quickly, by an environment variable."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", QUICK)


def spark_home() -> Path:
    """Return the directory of the installed Spark."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
