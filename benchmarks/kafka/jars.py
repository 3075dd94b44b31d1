"""Kafka's jars, fetched from Maven Central by the Ivy that Spark brings along, and kept in ``.cache/kafka``.

Two sets: Spark's connector with the client that it was built for, without what Spark has already, and a broker.
"""

from __future__ import annotations

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
_CENTRAL = "https://repo1.maven.org/maven2/"
_SETTINGS = """<ivysettings><settings defaultResolver="central"/><resolvers>
<ibiblio name="central" m2compatible="true" root="{}"/></resolvers></ivysettings>"""
_IVY = """<ivy-module version="2.0"><info organisation="pystreams" module="benchmarks"/><dependencies>
<dependency org="{}" name="{}" rev="{}" conf="default->default,runtime"/>
<exclude org="org.apache.hadoop"/></dependencies></ivy-module>"""


class MissingJarsError(Exception):
    """Maven Central is not reached, or does not have the jars."""


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
        target.mkdir(parents=True, exist_ok=True)
        wanted = target / "ivy.xml"
        wanted.write_text(_IVY.format(organisation, module, revision))
        (ivy,) = _SPARK_JARS.glob("ivy-*.jar")
        settings = target / "settings.xml"
        settings.write_text(_SETTINGS.format(_CENTRAL))
        words = [
            "-warn",
            "-settings",
            settings,
            "-ivy",
            wanted,
            "-cache",
            _CACHE / "ivy",
            "-retrieve",
            target / "[artifact]-[revision].[ext]",
        ]
        command = ["java", "-cp", ivy, "org.apache.ivy.Main", *words]
        try:
            tried = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as cause:
            raise MissingJarsError(f"{module} {revision} could not be fetched from Maven Central: {cause}") from cause
        if tried.returncode or not list(target.glob(f"{module}-*.jar")):
            why = next((line.strip() for line in tried.stdout.splitlines() if "not found" in line), "not reached")
            raise MissingJarsError(f"{module} {revision} could not be fetched from Maven Central: {why}")
        done.touch()
    return sorted(target.glob("*.jar"))
