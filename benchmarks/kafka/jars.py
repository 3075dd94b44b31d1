"""Kafka's jars by their coordinates, resolved by ``spark-submit --packages`` and cached in ``.cache/kafka``.

Spark downloads them from the repositories in this machine's Spark configuration, or in its ``spark.jars.ivySettings``.
There are three sets: Spark's Kafka connector with its client, without jars that Spark has already; a broker; and the
command-line tools.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pyspark

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "kafka"
_SPARK_JARS = Path(pyspark.__file__).parent / "jars"
_CONNECTOR = "org.apache.spark", "spark-sql-kafka-0-10_2.13"
_BROKER = "org.apache.kafka", "kafka_2.13", "4.1.2"
_TOOLS = "org.apache.kafka", "kafka-tools", "4.1.2"
#: Newest release of Spark's connector that was tried; used if no connector is published for the installed Spark.
_CONNECTOR_BEFORE = "4.2.0"
_SECONDS = 300


class MissingJarsError(Exception):
    """No reachable repository has the jars."""


def connector() -> tuple[str, list[Path]]:
    """Return the version of Spark's Kafka connector, and the paths of its jars that this Spark lacks."""
    try:
        version, jars = pyspark.__version__, _fetch(*_CONNECTOR, pyspark.__version__)
    except MissingJarsError:
        version, jars = _CONNECTOR_BEFORE, _fetch(*_CONNECTOR, _CONNECTOR_BEFORE)
    present = {_artifact(jar) for jar in _SPARK_JARS.glob("*.jar")}
    return version, [jar for jar in jars if _artifact(jar) not in present]


def broker() -> tuple[str, list[Path]]:
    """Return the broker's version and jars. Spark does not download Scala's library, so Spark's own jar is added."""
    return _BROKER[-1], [*_fetch(*_BROKER), *_SPARK_JARS.glob("scala-library-*.jar")]


def tools() -> list[Path]:
    """Return the jars of the command-line tools, which include a producer with a fixed rate."""
    return _fetch(*_TOOLS)


def _artifact(jar: Path) -> str:
    """Return a jar's name without its version."""
    return jar.name.rpartition("-")[0]


def _fetch(organisation: str, module: str, revision: str) -> list[Path]:
    """Return the jars of a module and its dependencies. Raises MissingJarsError."""
    target = CACHE / f"{module}-{revision}"
    done = target / "complete"
    if not done.exists():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        nothing = target / "nothing.py"  # Spark resolves packages before it runs a program
        nothing.write_text("")
        command = [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            *("--master", "local[1]", "--packages", f"{organisation}:{module}:{revision}"),
            *("--exclude-packages", "org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime"),
            *("--conf", f"spark.jars.ivy={target / 'ivy'}", str(nothing)),
        ]
        why = "not found in any repository"
        try:
            tried = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
            output = [line.strip() for line in tried.stderr.splitlines()]
            why = next((line for line in output if "not found" in line or "refused" in line), why)
        except (OSError, subprocess.TimeoutExpired) as cause:
            why = str(cause)
        for jar in (target / "ivy" / "jars").glob("*.jar"):
            jar.rename(target / jar.name.partition("_")[2])  # Spark puts the organisation before the name
        if not list(target.glob(f"{module}-*.jar")):
            raise MissingJarsError(f"{module} {revision} could not be resolved by Spark: {why}")
        done.touch()
    return sorted(target.glob("*.jar"))
