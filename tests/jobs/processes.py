"""Jobs as processes: started by `pystreams jobs run`, and stopped, or killed with all their descendants."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT
from tests.suite.waiting import wait_for

#: Maximum seconds until a job's first batch, and until its end, on a busy machine.
PATIENCE = 180.0


@dataclass
class Submitted:
    """A running job. `output`: the file with its output."""

    process: subprocess.Popen[bytes]
    output: Path

    @property
    def text(self) -> str:
        return self.output.read_text()

    def wait_for(self, *words: str) -> None:
        """Wait until the job has written one of these texts; fail if it ends without one."""
        wait_for(lambda: any(word in self.text for word in words) or self.ended, f"{words}", PATIENCE)
        assert any(word in self.text for word in words), self.text

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        """Kill spark-submit, Python and the workers."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def submitted(directory: Path, job: str, *words: object) -> Iterator[Submitted]:
    """A job run by spark-submit, as the command line starts it. It is killed when the block ends."""
    output = directory / "output.txt"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "SPARK_CONF_DIR": str(ROOT / "conf"),
        "TMPDIR": str(directory),
    }
    with output.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "pystreams", "jobs", "run", "--submit", "--master local[2]", job, *map(str, words)],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Submitted(process, output)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
