"""Execution of a page: its blocks run one after another, as a reader would run them, on one server and in one
directory.

The address ``127.0.0.1:6379`` on a page is replaced by the address of the server under test, which ``pystreams`` and
Spark find by PYSTREAMS_URL. If the page shows the output of a block, the output is compared, except for IDs, times,
sizes and rates.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
import yaml
from click.testing import CliRunner
from pyspark.sql import SparkSession

from engine.settings.config import Config
from pystreams.commands.root import cli
from spark_streams.source import PystreamsDataSource
from tests import ROOT
from tests.documentation.blocks import Block
from tests.servers import Running
from tests.suite import tools
from tests.suite.waiting import wait_for

_ID = re.compile(r"\b[0-9]{13}-[0-9]+\b")
_VARYING = [
    (_ID.pattern, "ID"),
    (r"\(ID, |\(....-..-..T[0-9:.]+Z, ", "(TIME, "),
    (r"redis://[0-9.:]+[0-9]", "URL"),
    (r"\b[0-9.,]+ ?(B|KiB|MiB)(?![a-z])", "SIZE"),
    (r"(?<![\w.])(-|[0-9.,]+(e[+-][0-9]+)?/[sh])(?![\w/-])", "RATE"),
    (r"~?\b[0-9.]+(s|m|h|d)( [0-9]+(s|m|h))?\b", "AGE"),
    (r" \([0-9]+:[0-9]{2}:[0-9]{2}\)", ""),  # pytest adds h:mm:ss to a duration of more than a minute
    (r"[-=─━]{3,}", "---"),
    (r"[ \t]+", " "),
    (r" $", ""),
]
_HERE = "127.0.0.1:6379"


def steady(text: str) -> str:
    """Return the text without parts that differ between runs: IDs, times, sizes, rates, and the width of columns."""
    for pattern, word in _VARYING:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text.strip()


@contextlib.contextmanager
def server_of_session(spark: SparkSession, url: str) -> Iterator[None]:
    """Make the session find the server, as if the session had started with PYSTREAMS_URL set to `url`.

    Planning runs in processes that the JVM starts. Their environment is stored when a data source is registered, so
    the source is registered again.
    """
    environment = spark.sparkContext.environment
    environment["PYSTREAMS_URL"] = url
    spark.dataSource.register(PystreamsDataSource)
    try:
        yield
    finally:
        del environment["PYSTREAMS_URL"]
        spark.dataSource.register(PystreamsDataSource)


@dataclass
class Reader:
    """A reader who follows a page in an empty directory, with an empty server."""

    server: Running
    directory: Path
    #: Names defined by the page's Python so far.
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})

    #: IDs on the page, and the IDs that replace them in this run.
    ids: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        programs = self.directory / ".programs"
        programs.mkdir()
        wrapper = programs / "redis-cli"
        wrapper.write_text(f'#!/bin/sh\nexec {tools.needed("redis-cli")} -p {self.server.port} "$@"\n')
        wrapper.chmod(0o755)
        path = [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYSTREAMS_")},
            "PATH": os.pathsep.join(path),
            "PYTHONPATH": str(ROOT),
            "PYSTREAMS_URL": self.server.url,
            "XDG_CONFIG_HOME": str(self.directory),
            "HOME": str(self.directory),
            "COLUMNS": "160",
            # Needed if the checkout was installed before pyproject.toml declared the plugin.
            "PYTEST_PLUGINS": "pystreams.testing.plugin",
        }

    def follow(self, block: Block) -> None:
        """Run or parse the block, and compare its output with the page's."""
        text = block.text.replace(_HERE, f"{self.server.host}:{self.server.port}")
        if block.file:
            (self.directory / block.file).write_text(text)
            return
        written = getattr(self, f"_{block.language}")(text)
        if block.output is not None:
            assert steady(written) == steady(block.output), block.location

    def _python(self, text: str) -> str:
        written = io.StringIO()
        with contextlib.redirect_stdout(written):
            exec(compile(text, "page", "exec"), self.names)
        # A query releases its lease shortly after its end, and this test could start the next query even sooner.
        spark = self.names.get("spark")
        if isinstance(spark, SparkSession) and not spark.streams.active:
            wait_for(self._no_lease, "ended queries to release their leases")
        return written.getvalue()

    def _no_lease(self) -> bool:
        with redis.Redis(host=self.server.host, port=self.server.port) as client:
            return not client.keys("pystreams:*:lease:*")

    def _sql(self, text: str) -> str:
        written = io.StringIO()
        with contextlib.redirect_stdout(written):
            for statement in filter(str.strip, text.split(";")):
                frame = self.names["spark"].sql(statement)
                if frame.columns:
                    frame.show(truncate=False)
        return written.getvalue()

    def _sh(self, text: str) -> str:
        return self._shell(f"set -e\n{text}")

    def _redis(self, text: str) -> str:
        """Run a session of redis-cli: commands after ``>``, and the replies as a terminal shows them."""
        commands = re.findall(r"^(?:[\w.:]+)?> (.*)$", text, re.MULTILINE)
        replies = re.sub(r"^(?:[\w.:]+)?> .*\n", "", text, flags=re.MULTILINE)
        written = self._shell("redis-cli --no-raw", "\n".join(commands) + "\n")
        assert steady(re.sub(r"\n+", "\n", written)) == steady(replies)
        return written

    def _console(self, text: str) -> str:
        """Run a session of the shell: commands after ``$``, and their output."""
        for command, shown in re.findall(r"^\$ ((?:[^\n]*\\\n)*[^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", text, re.MULTILINE):
            line = _ID.sub(lambda found: self.ids.get(found[0], found[0]), command.replace("\\\n", " "))
            written = self._line(line)
            assert (command, steady(written)) == (command, steady(shown))
            self.ids.update(zip(_ID.findall(shown), _ID.findall(written), strict=True))
        return ""

    def _line(self, line: str) -> str:
        """Return the output of a shell line. ``pystreams`` runs in this process, which saves its start-up time."""
        line = line.split("  #", maxsplit=1)[0]
        parts = re.split(r" \| | >/dev/null \|\| | \|\| ", line)
        (number, verb), *others = [
            each for each in enumerate(parts) if re.match(r"pystreams\b", each[1]) and ">" not in shlex.split(each[1])
        ] or [(-1, "")]
        if number < 0 or others:
            return self._shell(line)
        given = self._shell(" | ".join(parts[:number])) if number else None
        result = CliRunner().invoke(cli, shlex.split(verb)[1:], input=given, env={**self.environment})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        if " || " in line:
            shown = "" if " >/dev/null || " in line else result.stderr + result.stdout
            otherwise = self._shell(parts[-1].replace("$?", str(result.exit_code))) if result.exit_code else ""
            return shown + otherwise
        if number + 1 < len(parts):
            return result.stderr + self._shell(" | ".join(parts[number + 1 :]), result.stdout)
        return result.stderr + result.stdout

    def _shell(self, text: str, given: str = "") -> str:
        run = subprocess.run(
            [tools.needed("bash"), "-c", text],
            cwd=self.directory,
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=300,  # a page may start Spark
            check=False,
        )
        assert run.returncode == 0, f"{text}\n{run.stdout}{run.stderr}"
        return run.stderr + run.stdout

    def _toml(self, text: str) -> str:
        tomllib.loads(text)
        return ""

    def _yaml(self, text: str) -> str:
        list(yaml.safe_load_all(text))
        return ""

    def _json(self, text: str) -> str:
        json.loads(text)
        return ""

    def _ini(self, text: str) -> str:
        """Check a configuration file of the engine, whose directives must all exist."""
        file = self.directory / "page.conf"
        file.write_text(text)
        Config().load([str(file)])
        return ""
