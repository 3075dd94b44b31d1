"""The process's memory in bytes, on each operating system."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

from engine.shell.housekeeping import memory


@pytest.mark.parametrize(("platform", "unit"), [("linux", 1024), ("freebsd14", 1024), ("darwin", 1)])
def test_the_peak_size_is_in_bytes_on_every_system(platform: str, unit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak size is in bytes on macOS, where getrusage counts bytes, and on Linux, where it counts KiB."""
    counted = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    monkeypatch.setattr(sys, "platform", platform)
    assert counted * unit <= memory.most_resident() < 2 * counted * unit


def test_without_proc_the_peak_size_replaces_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /proc the resident size of the process is its peak size."""
    present = memory.resident()
    assert present > 1 << 20

    def missing(_: Path) -> bytes:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_bytes", missing)
    assert memory.resident() == memory.most_resident() >= present // 2
