"""The process's memory: how much is in use, and giving back to the system what the allocators keep."""

from __future__ import annotations

import ctypes
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

_PAGE = resource.getpagesize()

#: glibc's malloc_trim: called with 0 it returns free memory to the system, without the GIL. None with another libc.
malloc_trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)


def resident() -> int:
    """The resident size of this process, in bytes; where there is no ``/proc`` (macOS), the most that it was so far."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError):
        return most_resident()


def most_resident() -> int:
    """The greatest resident size of this process so far, in bytes. macOS counts it in bytes, other systems in KiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def give_back() -> None:
    """Return to the system what the allocators keep for later. It takes milliseconds where there is much."""
    pa.default_memory_pool().release_unused()
    if malloc_trim is not None:
        malloc_trim(0)
