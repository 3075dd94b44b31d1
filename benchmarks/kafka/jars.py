"""Kafka's jars by their coordinates, resolved by ``spark-submit --packages`` and kept in ``.cache/kafka``.

Where they come from is this machine's configuration of Spark: its repositories, or ``spark.jars.ivySettings``. There
are two sets: Spark's connector with its client, without what Spark has already, and a broker.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pyspark

_CACHE = Path(__file__).resolve().parents[2] / ".cache" / "kafka"
_SPARK_JARS = Path(pyspark.__file__).parent / "jars"
_CONNECTOR = "org.apache.spark", "spark-sql-kafka-0-10_2.13"
_BROKER = "org.apache.kafka", "kafka_2.13", "4.1.2"
_TOOLS = "org.apache.kafka", "kafka-tools", "4.1.2"
#: Spark's newest release whose connector was tried; for a newer Spark whose own is not published.
_CONNECTOR_BEFORE = "4.2.0"
_SECONDS = 300


class MissingJarsError(Exception):
    """No repository is reached that has the jars."""


def connector() -> tuple[str, list[Path]]:
    """The version of Spark's Kafka connector, and its jars as far as this Spark lacks them."""
    try:
        version, jars = pyspark.__version__, _fetched(*_CONNECTOR, pyspark.__version__)
    except MissingJarsError:
        version, jars = _CONNECTOR_BEFORE, _fetched(*_CONNECTOR, _CONNECTOR_BEFORE)
    present = {_artifact(jar) for jar in _SPARK_JARS.glob("*.jar")}
    return version, [jar for jar in jars if _artifact(jar) not in present]


def broker() -> tuple[str, list[Path]]:
    """The broker's version and jars."""
    return _BROKER[-1], _fetched(*_BROKER)


def tools() -> list[Path]:
    """The jars of the command-line tools, a producer with a fixed rate among them."""
    return _fetched(*_TOOLS)


def _artifact(jar: Path) -> str:
    """A jar's name without its version."""
    return jar.name.rpartition("-")[0]


def _fetched(organisation: str, module: str, revision: str) -> list[Path]:
    """The jars of a module and of what it needs. Raises MissingJarsError."""
    target = _CACHE / f"{module}-{revision}"
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
        why = "no repository has it"
        try:
            tried = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
            said = [line.strip() for line in tried.stderr.splitlines()]
            why = next((line for line in said if "not found" in line or "refused" in line), why)
        except (OSError, subprocess.TimeoutExpired) as cause:
            why = str(cause)
        for jar in (target / "ivy" / "jars").glob("*.jar"):
            jar.rename(target / jar.name.partition("_")[2])  # Spark puts the organisation before the name
        if not list(target.glob(f"{module}-*.jar")):
            raise MissingJarsError(f"{module} {revision} could not be resolved by Spark: {why}")
        done.touch()
    return sorted(target.glob("*.jar"))
