"""Processes of this machine: their parents, whether one is a JVM, and whether one is still running.

This module reads /proc on Linux, and the output of `ps` elsewhere. The Spark master, and whether the program is a
service for other programs, are determined only from command lines and Spark's files.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_CONF = "SPARK_CONF_DIR"
_SHOWN = 80  # maximum characters of a command line in a message


@dataclass(frozen=True)
class Process:
    """A process: its ID, and its start time in the system's unit, because IDs are reused.

    Its text form is `PID-START`, which `parse` reads.
    """

    pid: int
    started: str

    def __str__(self) -> str:
        return f"{self.pid}-{self.started}"

    @classmethod
    def of(cls, pid: int) -> Process:
        return cls(pid, _stat(pid)[1])

    @classmethod
    def parse(cls, text: str) -> Process | None:
        pid, _, started = text.partition("-")
        return cls(int(pid), started) if pid.isdigit() and started else None

    def runs(self) -> bool:
        """Return whether this process is still running, not another process with the same ID."""
        return runs(self.pid) and _stat(self.pid)[1] == self.started


def runs(pid: int) -> bool:
    """Return whether a process with this ID is running. A zombie does not count."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _stat(pid)[2] != "Z"


def ancestors() -> Iterator[Process]:
    """Yield the ancestors of this process, parent first. Includes process 1, which may be the driver in a container."""
    pid = os.getppid()
    while pid > 0:
        parent, started, _ = _stat(pid)
        if not started:
            return
        yield Process(pid, started)
        pid = parent


def is_java(pid: int) -> bool:
    """Return whether the process is a JVM."""
    return Path((_command(pid) or [""])[0]).name == "java"


def is_running(words: Sequence[str]) -> bool:
    """Return whether any process has this sequence of words on its command line."""
    wanted = list(words)
    for given in _commands():
        if any(given[at : at + len(wanted)] == wanted for at in range(len(given) - len(wanted) + 1)):
            return True
    return False


def spark_master(pid: int) -> str | None:
    """Return the Spark master of a JVM; None if its command line and Spark's files do not name one.

    On the command line, the first `--master M` or `--conf spark.master=M` names the master. Otherwise it is searched in
    the file of `--properties-file` (drivers in YARN and Kubernetes). Without this argument, it is searched in
    spark-defaults.conf in SPARK_CONF_DIR.
    """
    words = _command(pid)
    files = [Path(os.environ[_CONF], "spark-defaults.conf")] if _CONF in os.environ else []
    for word, following in itertools.pairwise(words):
        if word == "--master":
            return following
        if word in ("--conf", "-c") and following.startswith("spark.master="):
            return following.removeprefix("spark.master=")
        if word == "--properties-file":
            files = [Path(following)]
    return next((master for file in files if (master := _master_in(file)) is not None), None)


def _master_in(properties: Path) -> str | None:
    """Return `spark.master` in a properties file; None if the file lacks it or cannot be read."""
    try:
        found = re.findall(r"^\s*spark\.master\s*[\s=:]\s*(\S+)", properties.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        return None
    return found[-1].replace("\\", "") if found else None  # colons are escaped: k8s\://https\://...


def spark_service() -> str | None:
    """Return a description of the service that this process belongs to; None if it belongs to an application.

    A service runs queries of other programs. The JVM of a pipeline has the program cli.py of pyspark as its parent.
    """
    for process in ancestors():
        for word in _command(process.pid):
            if word.endswith("pyspark/pipelines/cli.py"):
                return "a declarative pipeline (spark-pipelines)"
            if word == "org.apache.spark.sql.connect.service.SparkConnectServer":
                return "a Spark Connect server"
    return None


def shown(pid: int) -> str:
    """Return a process's command line for a message. The middle is omitted if the command line is long."""
    text = " ".join(_command(pid)).strip()
    return text if len(text) <= _SHOWN else f"{text[:20]}...{text[23 - _SHOWN :]}"


def value_of(pid: int, word: str) -> str | None:
    """Return the word that follows `word` on a process's command line; None if there is no such word."""
    return next((following for each, following in itertools.pairwise(_command(pid)) if each == word), None)


def _stat(pid: int) -> tuple[int, str, str]:
    """Return the parent's ID, the start time and the state; (0, "", "") if the process does not exist."""
    if _PROC.joinpath("self").exists():
        try:
            # The second field is the command's name in parentheses, and may contain spaces and parentheses.
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return 0, "", ""
        return int(fields[1]), fields[19], fields[0]
    columns = _ps(pid, "ppid=,state=,lstart=").split()
    if len(columns) < 3:
        return 0, "", ""
    parent, state, *started = columns
    return int(parent), "".join(started).replace(":", ""), state[0]


def _commands() -> Iterator[list[str]]:
    """Yield the words of each running process's command line, if this user may read it."""
    if _PROC.joinpath("self").exists():
        yield from (_command(int(each.name)) for each in _PROC.iterdir() if each.name.isdigit())
        return
    lines = subprocess.run(["ps", "-axwwo", "command="], capture_output=True, text=True, check=False).stdout
    yield from (line.split() for line in lines.splitlines())


def _command(pid: int) -> list[str]:
    if _PROC.joinpath("self").exists():
        try:
            return [word.decode(errors="replace") for word in (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return []
    return _ps(pid, "command=").split()


def _ps(pid: int, columns: str) -> str:
    return subprocess.run(["ps", "-o", columns, "-p", str(pid)], capture_output=True, text=True, check=False).stdout
