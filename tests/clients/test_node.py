"""ioredis and node-redis, run by ``node/drive.js``, see no difference between the engine and Redis.

They are installed once into a cache directory, by the lock file next to the driver.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.servers import Running
from tests.suite.tools import needed

HERE = Path(__file__).parent / "node"
#: Timeouts in seconds, for the installation of the packages and for a run of the driver.
INSTALL_SECONDS, DRIVE_SECONDS = 300, 60


@pytest.fixture(scope="module")
def node() -> str:
    return needed("node")


@pytest.fixture(scope="module")
def driver(node: str) -> Path:
    """Install the driver's packages if they are missing, and return the path of the driver next to them."""
    npm = needed("npm")
    lock_file = (HERE / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pystreams-tests"
    directory = cache / f"node-{hashlib.sha256(lock_file).hexdigest()[:16]}"
    directory.mkdir(parents=True, exist_ok=True)
    # Parallel test processes share the folder, and the first one installs the packages.
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "installed").exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, directory)
            command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=INSTALL_SECONDS)
            (directory / "installed").touch()
        # Packages are searched next to the program. Do not overwrite one that runs in another test process.
        source, driver = HERE / "drive.js", directory / "drive.js"
        if not driver.exists() or driver.read_bytes() != source.read_bytes():
            shutil.copy(source, driver)
    return driver


def answers(node: str, driver: Path, library: str, running: Running) -> list[Any]:
    """Run the driver with a library on a server, and return the result of each call."""
    done = subprocess.run(
        [node, str(driver), library, str(running.port)],
        capture_output=True,
        text=True,
        check=False,
        timeout=DRIVE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.redis
@pytest.mark.parametrize("library", ["ioredis", "redis"])
def test_calls_give_the_results_of_redis(node: str, driver: Path, ours: Running, real: Running, library: str) -> None:
    """Every call gives the same result on both servers, including blocking reads, transactions and pipelines."""
    here, there = answers(node, driver, library, ours), answers(node, driver, library, real)
    assert len(here) > 20
    for reply, expected in zip(here, there, strict=True):
        if reply[0] in ("xinfo", "xInfoGroups", "xautoclaim"):
            # The order of consumers and additional fields of newer servers are not compared.
            assert len(reply[1]) == len(expected[1])
        else:
            assert reply == expected
