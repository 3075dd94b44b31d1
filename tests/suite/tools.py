"""External programs that tests start, and what happens if one is missing.

A test gets such a program's path from ``needed``. If the program is missing, ``needed`` skips the test, or fails it if
the environment has ``REQUIRE_REDIS=1``, and names the Debian package to install.

test_tools.py in this folder verifies that .ci/run installs the packages.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

#: Programs, and the Debian package of each.
PACKAGES = {
    "redis-server": "redis-server",
    "redis-cli": "redis-tools",
    "redis-benchmark": "redis-tools",
    "redis-check-rdb": "redis-tools",
    "java": "openjdk-17-jre-headless",
    "chromium": "chromium",
    "node": "nodejs",
    "npm": "npm",
    "openssl": "openssl",
    "git": "git",
    "setpriv": "util-linux",
    "sh": "dash",
    "bash": "bash",
    "promtool": "prometheus",
    "systemd-analyze": "systemd",
    "logrotate": "logrotate",
    "sed": "sed",
    "cat": "coreutils",
    "head": "coreutils",
    "dirname": "coreutils",
    "grep": "grep",
}


def path_of(program: str) -> str | None:
    """Return the program's path, or None if it is missing.

    The environment variable ``REDIS_SERVER`` names another redis-server than that on PATH, ``JAVA_HOME`` another Java.
    """
    if program not in PACKAGES:
        raise ValueError(f"{program} is not in tests.suite.tools.PACKAGES")
    if program == "redis-server" and (named := os.environ.get("REDIS_SERVER")):
        return named
    if program == "java" and (home := os.environ.get("JAVA_HOME")):
        return str(Path(home) / "bin" / "java")
    return shutil.which(program)


def needed(program: str) -> str:
    """Return the program's path. If it is missing the test is skipped, or fails with ``REQUIRE_REDIS=1``."""
    path = path_of(program)
    if path is None:
        required = os.environ.get("REQUIRE_REDIS", "") not in ("", "0")
        give_up = pytest.fail if required else pytest.skip
        give_up(f"no {program} on PATH (Debian package {PACKAGES[program]}); REQUIRE_REDIS=1 makes that a failure")
    return path
