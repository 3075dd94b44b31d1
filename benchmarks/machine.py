"""The machine: its description, and its limits as references for the figures."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

_COPIED = 64 << 20  # bytes of one measured copy
_SYNCS = 200  # number of measured fsyncs
_PACKAGES = ("numpy", "hiredis", "uvloop", "pyarrow", "pyspark", "redis")


def description() -> dict[str, Any]:
    """Return a description of the machine and the software."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
        "load_before": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in _PACKAGES},
        "commit": commit(),
        "copied_bytes_per_second": copy_speed(),
        "fsyncs_per_second": sync_speed(),
    }


def commit() -> str | None:
    """Return the checkout's commit; None if git is not installed or there is no checkout."""
    git = shutil.which("git")
    if git is None:
        return None
    described = subprocess.run([git, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return described.stdout.strip() or None


def processor() -> str:
    """Return the processor's name, as far as the system provides it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((text.split(":", 1)[1].strip() for text in lines if text.startswith("model name")), platform.machine())


def copy_speed() -> float:
    """Return the bytes per second that one core copies in memory."""
    source, target = bytes(_COPIED), memoryview(bytearray(_COPIED))
    taken = []
    for _ in range(6):
        begin = time.perf_counter()
        target[:] = source
        taken.append(time.perf_counter() - begin)
    return _COPIED / statistics.median(taken[1:])


def sync_speed() -> float:
    """Return the number of fsyncs per second after small appends, on the disk that the servers use."""
    with tempfile.TemporaryFile(prefix="bench-sync-") as file:
        begin = time.perf_counter()
        for _ in range(_SYNCS):
            file.write(b"x" * 100)
            file.flush()
            os.fdatasync(file.fileno())
        return _SYNCS / (time.perf_counter() - begin)
