"""Servers as processes, for tests: a real ``redis-server``, and the engine.

Each is a context manager that yields the process once it replies, and leaves nothing behind: the process is stopped
(killed if necessary) and its directory removed, even if the test fails.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pystreams.testing import servers as kit
from pystreams.testing.servers import Running
from tests import ROOT
from tests.servers.releases import Release, release_in
from tests.suite import tools
from tests.suite.waiting import DEADLINE


@functools.cache
def redis_release() -> Release:
    """Return the release of ``redis-server``, which may be a Valkey; version 0 if it is missing."""
    path = tools.path_of("redis-server")
    if path is None:
        return Release((0,))
    text = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    release = release_in(text)
    if release is None:
        raise RuntimeError(f"{path} --version says {text!r}")
    return release


@contextmanager
def redis(*flags: str) -> Iterator[Running]:
    """Yield a real ``redis-server`` as the kit starts it, with DEBUG enabled; the program must be installed."""
    with kit.redis("--enable-debug-command", "yes", *flags, program=tools.needed("redis-server")) as running:
        yield running


@contextmanager
def sentinel(*settings: str, port_setting: str = "port") -> Iterator[Running]:
    """Yield a real Sentinel on a free port: a ``redis-server`` in that mode, with ``settings`` as configuration lines.

    ``port_setting`` is ``"tls-port"`` for a Sentinel with TLS; ``settings`` then contain ``"port 0"``.
    """
    path = tools.needed("redis-server")

    def command(directory: Path, port: int) -> list[str]:
        configuration = directory / "sentinel.conf"  # The Sentinel rewrites this file.
        lines = (f"{port_setting} {port}", "bind 127.0.0.1", f"dir {directory}", *settings)
        configuration.write_text("".join(f"{line}\n" for line in lines))
        return [path, str(configuration), "--sentinel"]

    with kit.on_a_free_port(command, "Sentinel ID is") as running:
        yield running


@contextmanager
def engine(
    *flags: str,
    config_file: str | None = None,
    environment: dict[str, str] | None = None,
    module: str = "engine",
) -> Iterator[Running]:
    """Yield the engine as ``python -m engine``, or another module of the checkout that runs an engine."""
    surroundings = {"PYTHONPATH": str(ROOT), **(environment or {})}
    program = [sys.executable, "-m", module]
    with kit.engine(*flags, config_file=config_file, environment=surroundings, program=program) as running:
        yield running


def run_engine(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the engine with arguments that make it exit, and return its output and status."""
    command = [sys.executable, "-m", "engine", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, cwd=ROOT, check=False)
