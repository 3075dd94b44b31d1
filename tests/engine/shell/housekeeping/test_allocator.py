"""The process's memory in bytes, on each system."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

from engine.shell.housekeeping import allocator


@pytest.mark.parametrize(("platform", "unit"), [("linux", 1024), ("freebsd14", 1024), ("darwin", 1)])
def test_the_greatest_size_is_in_bytes_whatever_the_system_counts_in(
    platform: str, unit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """getrusage counts in bytes on macOS, and in KiB elsewhere."""
    counted = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    monkeypatch.setattr(sys, "platform", platform)
    assert counted * unit <= allocator.most_resident() < 2 * counted * unit


def test_without_proc_the_greatest_size_stands_for_the_present_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no less than the present size, which Linux reports in pages."""
    present = allocator.resident()
    assert present > 1 << 20

    def missing(_: Path) -> bytes:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_bytes", missing)
    assert allocator.resident() == allocator.most_resident() >= present // 2
