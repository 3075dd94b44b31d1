"""Programs written for Redis give the same results on the engine, and survive the death of a worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.programs.running import DEADLINE, SCRIPTS, outcome
from tests.suite.tools import needed

#: Folder in which `make test-programs` has installed the programs.
INSTALLED = os.environ.get("PROGRAMS", "")

needs_programs = pytest.mark.skipif(not INSTALLED, reason="the programs are installed by make test-programs")

#: Programs that `make test` runs too, with fewer jobs; the extra `test` installs them.
LIGHT = ("huey", "rq")
#: Jobs of each program, and seconds without progress after which one is submitted again. Five seconds would be the
#: timeout of channels_redis at the server: if both end in one iteration of its event loop, redis-py loses the
#: cancellation.
JOBS, AGAIN = (24, 4.0) if INSTALLED else (8, 0.3)

_SQUARES = [number * number for number in range(JOBS)]
#: Expected report of each driver.
PROGRAMS: dict[str, dict[str, Any]] = {
    "celery": {"squares": _SQUARES, "chord": 285, "later": 49, "by_priority": [0, 5, 9], "waited": True},
    "rq": {"squares": _SQUARES, "then": 36, "again": "second"},
    "arq": {"squares": _SQUARES, "later": 49, "twice": False, "waited": True, "ticks": True},
    "dramatiq": {"squares": _SQUARES, "later": 49, "waited": True, "again": "second", "limited": [True, False]},
    "huey": {"squares": _SQUARES, "later": 49, "waited": True, "again": "second", "locked": [True, False]},
    "taskiq": {"squares": _SQUARES},
    "faststream": {"squares": _SQUARES},
    "channels": {"squares": _SQUARES},
    "redis_py": {"differs": True, "released": False, "piped": [1, 42]},
    "bullmq": {
        "squares": _SQUARES,
        "later": 49,
        "waited": True,
        "again": "second",
        "total": 14,
        "repeated": [9, 9, 9],
        "byPriority": [1, 2, 3],
        "scripted": [41, 42],
        "counts": {"completed": JOBS + 9, "failed": 0, "active": 0, "waiting": 0, "delayed": 0},
    },
}


def started(kind: str) -> AbstractContextManager[servers.Running]:
    return servers.redis() if kind == "redis" else servers.engine()


#: Scripts with libraries, and the commands that run them.
LIBRARIES = {"python": SCRIPTS / "libraries.py", "node": Path(INSTALLED) / "node" / "libraries.js"}


def command(program: str) -> list[str]:
    if program == "bullmq":
        return [needed("node"), str(Path(INSTALLED) / "node" / "bullmq_job.js")]
    python = str(Path(INSTALLED) / "bin" / "python") if INSTALLED else sys.executable
    return [python, str(SCRIPTS / f"{program}_job.py")]


@pytest.mark.parametrize("kind", [pytest.param("redis", marks=pytest.mark.redis), "engine"])
@pytest.mark.parametrize(
    "program", [name if name in LIGHT else pytest.param(name, marks=needs_programs) for name in PROGRAMS]
)
def test_every_job_gives_its_result(program: str, kind: str, tmp_path: Path) -> None:
    """Every job of a program gives its result although one of two workers is killed in the middle."""
    with started(kind) as running:
        found = outcome(command(program), f"{running.url}/0", tmp_path, jobs=JOBS, again=AGAIN)
        assert found == PROGRAMS[program]


@needs_programs
@pytest.mark.redis
@pytest.mark.parametrize("language", LIBRARIES)
def test_libraries(language: str, tmp_path: Path) -> None:
    """Caches, limits, locks, sessions, collections and schedules give the same results as on redis-server."""
    program = needed("node") if language == "node" else str(Path(INSTALLED) / "bin" / "python")
    found = []
    for kind in ("redis", "engine"):
        with started(kind) as running:
            words = [program, str(LIBRARIES[language]), f"{running.url}/0"]
            done = subprocess.run(words, check=False, capture_output=True, text=True, cwd=tmp_path, timeout=DEADLINE)
            assert done.returncode == 0, f"on {kind}: {done.stderr[-3000:]}"
            found.append(json.loads(done.stdout.splitlines()[-1]))
    assert len(found[0]) > 5
    assert found[1] == found[0]
