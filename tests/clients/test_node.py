"""Clients of another language: ioredis and node-redis, driven by ``node/drive.js``, see no difference from Redis.

They are installed once into a cache directory, by the lock file beside the driver.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.servers import Running
from tests.tools import needed

HERE = Path(__file__).parent / "node"
#: Installing takes seconds where packages are near; a call of the driver never does.
INSTALL_SECONDS, DRIVE_SECONDS = 300, 60


@pytest.fixture(scope="module")
def node() -> str:
    return needed("node")


@pytest.fixture(scope="module")
def driver(node: str) -> Path:
    """The driver, beside the packages that it needs."""
    npm = needed("npm")
    lock = (HERE / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pystreams-tests"
    place = cache / f"node-{hashlib.sha256(lock).hexdigest()[:16]}"
    if not (place / "installed").exists():
        making = cache / f"making-{os.getpid()}"
        making.mkdir(parents=True)
        try:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, making)
            subprocess.run(
                [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
                cwd=making,
                check=True,
                capture_output=True,
                timeout=INSTALL_SECONDS,
            )
            (making / "installed").touch()
            shutil.rmtree(place, ignore_errors=True)
            making.rename(place)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    # Packages are looked for beside the program.
    return Path(shutil.copy(HERE / "drive.js", place))


def answers(node: str, driver: Path, library: str, running: Running) -> list[Any]:
    """What each call gave."""
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
def test_as_on_redis(node: str, driver: Path, ours: Running, real: Running, library: str) -> None:
    """Every call gives the same on both servers, blocking reads, transactions and pipelines among them."""
    here, there = answers(node, driver, library, ours), answers(node, driver, library, real)
    assert len(here) > 20
    for mine, its in zip(here, there, strict=True):
        if mine[0] in ("xinfo", "xInfoGroups", "xautoclaim"):
            # Consumers' order and what newer servers tell more are not compared here.
            assert len(mine[1]) == len(its[1])
        else:
            assert mine == its
