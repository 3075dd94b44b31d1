"""A standalone Spark cluster on loopback, with a Master and two Workers of the pyspark package, and
its applications.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import servers
from tests.packaging.distributions import surroundings
from tests.suite.jvm import QUICK, spark_home
from tests.suite.waiting import wait_for

JOB = Path(__file__).with_name("job.py")
_PATIENCE = 400.0


@dataclass
class Application:
    """A program run by spark-submit. It prints a line `running {...}` when its query runs, and JSON when it ends."""

    process: subprocess.Popen[bytes]
    directory: Path
    output: Path

    def _ended(self) -> bool:
        return self.process.poll() is not None

    def output_after(self, word: str) -> dict[str, Any] | None:
        """Return the JSON that the program printed after this word at the start of a line."""
        for line in self.output.read_text().splitlines():
            if line.startswith(word + " "):
                found: dict[str, Any] = json.loads(line.removeprefix(word))
                return found
        return None

    def wait_for(self, word: str) -> dict[str, Any]:
        """Wait for a line that starts with this word."""
        wait_for(
            lambda: self.output_after(word) is not None or self._ended(), f"the application to say {word!r}", _PATIENCE
        )
        found = self.output_after(word)
        assert found is not None, self.output.read_text()
        return found

    def finish(self) -> dict[str, Any]:
        """Let the query read to the end, and wait until the program ends; return its result."""
        (self.directory / "stop").touch()
        found = self.wait_for("ended")
        assert self.process.wait(_PATIENCE) == 0, self.output.read_text()
        return found


@dataclass
class Standalone:
    """A cluster of two workers with one core each."""

    url: str
    directory: Path

    def environment(self, **changed: str) -> dict[str, str]:
        return surroundings(
            SPARK_HOME=str(spark_home()),
            SPARK_LOCAL_IP="127.0.0.1",
            SPARK_LOCAL_DIRS=str(self.directory / "local"),
            JDK_JAVA_OPTIONS=QUICK,
            TMPDIR=str(self.directory),
            **changed,
        )

    def submit(
        self, words: list[str], arguments: dict[str, Any], **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run spark-submit and wait until it ends."""
        command = self._command(words, arguments, self.directory)
        return subprocess.run(
            command,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )

    @contextmanager
    def application(
        self, words: list[str], arguments: dict[str, Any], unpacked: Path | None = None, **environment: str
    ) -> Iterator[Application]:
        """Submit the job in client mode.

        `words` are arguments of spark-submit, `arguments` those of the job. `unpacked` is an environment that appears
        as `env` in the driver's directory.
        """
        directory = Path(tempfile.mkdtemp(dir=self.directory))
        if unpacked is not None:
            (directory / "env").symlink_to(unpacked)
        output = directory / "output.txt"
        with output.open("wb") as sink:
            process = subprocess.Popen(
                self._command(words, arguments, directory),
                cwd=directory,
                env=self.environment(**environment),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,  # spark-submit runs Python in a process of its own
            )
        try:
            yield Application(process, directory, output)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _command(self, words: list[str], arguments: dict[str, Any], directory: Path) -> list[str]:
        arguments = {"stop": str(directory / "stop"), "checkpoint": str(directory / "checkpoint"), **arguments}
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
        }
        confs = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        return [
            str(spark_home() / "bin" / "spark-submit"),
            "--master",
            self.url,
            *confs,
            *words,
            str(JOB),
            json.dumps(arguments),
        ]


@contextmanager
def standalone() -> Iterator[Standalone]:
    """Yield a cluster once both workers are registered, and remove its processes and files afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="ps-cluster-"))
    made = Standalone(f"spark://127.0.0.1:{servers.free_port()}", directory)
    ui = str(servers.free_port())

    def start(stack: ExitStack, kind: str, *words: str) -> None:
        spark_class = str(spark_home() / "bin" / "spark-class")
        name = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        with (directory / f"{kind}-{len(list(directory.glob('*.txt')))}.txt").open("wb") as sink:
            process = subprocess.Popen(
                servers.tied_to_us([spark_class, name, "--host", "127.0.0.1", *words]),
                env=made.environment(SPARK_DAEMON_MEMORY="256m"),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )
        stack.callback(servers.stop, process)

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{ui}/json/", timeout=5) as reply:
                return int(json.load(reply)["aliveworkers"]) == 2
        except (OSError, ValueError):
            return False

    try:
        with ExitStack() as stack:
            start(stack, "Master", "--port", made.url.rpartition(":")[2], "--webui-port", ui)
            for number in range(2):
                work_dir = ("--work-dir", str(directory / f"worker-{number}"))
                start(stack, "Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0", *work_dir, made.url)
            wait_for(ready, "both workers", _PATIENCE)
            yield made
    finally:
        shutil.rmtree(directory, ignore_errors=True)
