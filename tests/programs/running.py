"""Runs of a small program with two workers. One worker is killed in the middle; the result is the driver's report."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.servers import stop

SCRIPTS = Path(__file__).parent / "scripts"
#: Maximum seconds for a program; only failures take that long.
DEADLINE = 300.0


def outcome(command: Sequence[str], url: str, directory: Path, *, jobs: int, again: float) -> dict[str, Any]:
    """Return the report of ``command``'s driver, with two workers. The first is killed when half of the jobs are done.

    Of the driver's ``jobs``, those without a result for ``again`` seconds are submitted once more. Processes write
    their errors into files of ``directory``, which the test shows if a driver fails.
    """
    processes: list[subprocess.Popen[bytes]] = []

    def start(role: str, name: str) -> subprocess.Popen[bytes]:
        with (directory / f"{name}.err").open("wb") as errors:
            process = subprocess.Popen(
                [*command, role, url],
                stdout=subprocess.PIPE if role == "drive" else errors,
                stderr=errors,
                cwd=directory,
                env={
                    **os.environ,
                    "PYTHONPATH": str(SCRIPTS),
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "JOBS": str(jobs),
                    "AGAIN": str(again),
                },
                start_new_session=True,
            )
        processes.append(process)
        return process

    try:
        victim = start("worker", "worker-1")
        start("worker", "worker-2")
        driver = start("drive", "driver")
        lines = _lines(driver, victim)
    finally:
        for process in processes:
            stop(process)
    errors = (directory / "driver.err").read_text()[-3000:]
    assert "{" in "".join(lines[-1:]), f"the driver printed {lines}\n{errors}"
    report: dict[str, Any] = json.loads(lines[-1])
    return report


def _lines(driver: subprocess.Popen[bytes], victim: subprocess.Popen[bytes]) -> list[str]:
    """Return the driver's output; the victim is killed when the driver prints ``half``."""
    assert driver.stdout is not None
    out, end, read = driver.stdout.fileno(), time.monotonic() + DEADLINE, b""
    while time.monotonic() < end:
        ready, _, _ = select.select([out], [], [], 1)
        if not ready:
            continue
        more = os.read(out, 1 << 16)
        if not more:
            break
        read += more
        if b"half\n" in read and victim.poll() is None:
            os.kill(victim.pid, signal.SIGKILL)
            victim.wait()
    return read.decode().splitlines()
