"""Programs about streams give the same results on the engine as on Redis, and survive the death of a worker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis

from tests import servers
from tests.suite.tools import needed
from tests.suite.waiting import wait_for

#: Folder in which `make test-programs` has installed the programs.
INSTALLED = Path(os.environ.get("PROGRAMS", "/nowhere"))
_PROGRAMS = INSTALLED / "programs"
JOBS = 24
#: Maximum seconds until all results are there; only failures take that long.
_DEADLINE = 120.0

#: The file that the installation of each program makes if its language is on the machine, and the program's command.
COMMANDS = {
    "faststream": ("python/bin/python", ("{file}", "{programs}/faststream_job.py")),
    "socketio": ("programs/socketio/node_modules", ("{node}", "{programs}/socketio/socketio_job.js")),
    "watermill": ("programs/watermill/watermill_job", ("{file}",)),
    "spring": (
        "programs/spring/target/dependency",
        ("{java}", "-cp", "{file}/*:{programs}/spring/target/classes", "SpringJob"),
    ),
}


def command(program: str) -> list[str]:
    """Return the command that runs a program. If the program is not installed, the test is skipped."""
    made, words = COMMANDS[program]
    if not (INSTALLED / made).exists():
        pytest.skip(f"{program} is not installed: its language is missing, or `make test-programs` was not run")
    tools = {name: needed(name) for name in ("node", "java") if f"{{{name}}}" in words}
    return [word.format(file=INSTALLED / made, programs=_PROGRAMS, **tools) for word in words]


@contextmanager
def started(file: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of a program, whose output is in the file."""
    with file.open("wb") as output:
        process = subprocess.Popen(
            words, cwd=file.parent, env={**os.environ, "JOBS": str(JOBS)}, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("kind", [pytest.param("redis", marks=pytest.mark.redis), "engine"])
@pytest.mark.parametrize("program", COMMANDS)
def test_every_job_gives_its_result(program: str, kind: str, tmp_path: Path) -> None:
    """Every job of a program gives its result, although one of its two workers is killed midway.

    socket.io has no redelivery; its client moves to the other worker midway instead, and its session is recovered.
    """
    words = command(program)
    with ExitStack() as stack:
        running = stack.enter_context(servers.redis() if kind == "redis" else servers.engine())
        client = stack.enter_context(redis.Redis(port=running.port, protocol=2))

        def done() -> set[int]:
            """Return the numbers whose squares are in the stream of results."""
            found = [value for _, fields in client.xrange("out") for value in fields.values()]
            pairs = [re.search(rb"square:(\d+):(\d+)", value) for value in found]
            return {int(pair[1]) for pair in pairs if pair is not None and int(pair[1]) ** 2 == int(pair[2])}

        def output() -> str:
            return "\n".join(file.read_text()[-2000:] for file in tmp_path.glob("*.txt"))

        try:
            victim = stack.enter_context(started(tmp_path / "1.txt", *words, "work", running.url, "1"))
            stack.enter_context(started(tmp_path / "2.txt", *words, "work", running.url, "2"))
            if program != "socketio":
                wait_for(lambda: client.exists("in") and len(client.xinfo_groups("in")) == 1, "the group", _DEADLINE)
            stack.enter_context(started(tmp_path / "publish.txt", *words, "publish", running.url))
            wait_for(lambda: len(done()) >= JOBS // 2, "half of the results", _DEADLINE)
            if program != "socketio":
                os.kill(victim.pid, signal.SIGKILL)
            wait_for(lambda: done() == set(range(JOBS)), "all results", _DEADLINE)
            if program == "socketio":
                wait_for(lambda: client.get("recovered") == b"true", "a recovered session", _DEADLINE)
            else:
                wait_for(lambda: client.xpending("in", "workers")["pending"] == 0, "acknowledgements", _DEADLINE)
        except TimeoutError as failure:
            pytest.fail(f"{failure}\n{output()}")
