"""Memory of the process: its resident size, and returning unused memory of the allocators to the system."""

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
    """Return the resident size of this process in bytes; on systems without ``/proc`` (macOS), the peak so far."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError):
        return most_resident()


def most_resident() -> int:
    """Return the peak resident size of this process in bytes. macOS reports bytes, other systems KiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def give_back() -> None:
    """Return unused memory of the allocators to the system. Returning much memory takes milliseconds."""
    pa.default_memory_pool().release_unused()
    if malloc_trim is not None:
        malloc_trim(0)
