"""Samples of memory, descriptors, files and PINGs, taken every few seconds, and the verdict on them.

A value is judged to grow without bound if it is clearly greater in the last quarter of the run than in the second
quarter. The first quarter does not count, because caches, the allocator and the files are still growing to their size.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.soak.client import Client

_PAGE = 4096
#: Seconds between two PINGs.
_PING_EVERY = 0.02
_MB = 1 << 20
#: Seconds after which the size of the data is stable.
WARM = 180.0


@dataclass(frozen=True)
class Sample:
    """One sample. Its PINGs are those since the previous sample. Sizes are in bytes, PING durations in milliseconds."""

    seconds: float
    memory: int
    log: int
    snapshot: int
    temporary: int
    descriptors: int
    threads: int
    clients: int
    keys: int
    commands: int
    ping_p50: float
    ping_p99: float
    ping_max: float


NAMES = [field.name for field in fields(Sample)]


@dataclass(frozen=True)
class Bound:
    """Maximum growth of ``name`` from the second quarter to the last: factor ``ratio``, plus ``slack``."""

    name: str
    ratio: float
    slack: float


#: Bounds of the judged values. `grown` compares maxima of values in `_LARGEST`, and medians of all other values.
BOUNDS = [
    Bound("memory", 1.1, 8 * _MB),
    Bound("log", 1.3, 8 * _MB),
    Bound("snapshot", 1.3, 4 * _MB),
    Bound("descriptors", 1.0, 8),
    Bound("threads", 1.0, 1),
    Bound("keys", 1.2, 100),
    Bound("ping_p99", 2.0, 5.0),
]
_LARGEST = {"log", "snapshot"}  # sizes of files, which drop when a file is rewritten


def grown(samples: Sequence[Sample]) -> list[str]:
    """Return a line for each value that grew without bound; empty if the first quarter was too short as a warm-up."""
    quarter = len(samples) // 4
    if not quarter or samples[quarter].seconds < WARM:
        return []
    found = []
    for bound in BOUNDS:
        values = [getattr(sample, bound.name) for sample in samples]
        of = max if bound.name in _LARGEST else median
        before, after = of(values[quarter : 2 * quarter]), of(values[-quarter:])
        if after > before * bound.ratio + bound.slack:
            found.append(f"{bound.name} grew from {before:g} (second quarter) to {after:g} (last quarter)")
    return found


def csv(samples: Sequence[Sample]) -> str:
    """Return the samples as a table of comma-separated values."""
    rows = [
        ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in asdict(sample).values())
        for sample in samples
    ]
    return "\n".join([",".join(NAMES), *rows, ""])


def watch(port: int, pid: int, seconds: float, every: float) -> Iterator[Sample]:
    """PING the server for ``seconds``, and yield a sample after every ``every`` seconds."""
    client = Client(port)
    directory = Path(client.run("CONFIG", "GET", "dir")[1].decode())
    begin = due = time.monotonic()
    try:
        while due < begin + seconds:
            due += every
            pings = list(_pings(client, due))
            yield _sample(client, pid, directory, due - begin, pings)
    finally:
        client.close()


def _pings(client: Client, until: float) -> Iterator[float]:
    while (now := time.monotonic()) < until:
        client.run("PING")
        spent = time.monotonic() - now
        yield spent * 1000
        time.sleep(max(_PING_EVERY - spent, 0.001))


def _sample(client: Client, pid: int, directory: Path, seconds: float, pings: Sequence[float]) -> Sample:
    info = dict(line.split(b":", 1) for line in client.run("INFO").split(b"\r\n") if b":" in line)
    sizes = file_sizes(directory)
    process = Path(f"/proc/{pid}")
    p50, p99, longest = np.percentile(pings, [50, 99, 100])
    return Sample(
        seconds=round(seconds, 1),
        memory=int((process / "statm").read_text().split()[1]) * _PAGE,
        log=sizes["log"],
        snapshot=sizes["snapshot"],
        temporary=sizes["temporary"],
        descriptors=len(list((process / "fd").iterdir())),
        threads=len(list((process / "task").iterdir())),
        clients=int(info[b"connected_clients"]),
        keys=sum(int(value.split(b"=")[1].split(b",")[0]) for name, value in info.items() if name[:2] == b"db"),
        commands=int(info[b"total_commands_processed"]),
        ping_p50=round(float(p50), 3),
        ping_p99=round(float(p99), 3),
        ping_max=round(float(longest), 3),
    )


def file_sizes(directory: Path) -> dict[str, int]:
    """Return the sizes in bytes of the server's log, its snapshot, and its unfinished files."""
    sizes = dict.fromkeys(("log", "snapshot", "temporary"), 0)
    for path in directory.rglob("*"):
        if path.name.startswith("temp-"):
            kind = "temporary"
        elif path.suffix in (".rdb", ".psb") and path.parent == directory:
            kind = "snapshot"
        elif path.suffix in (".aof", ".rdb", ".psb"):
            kind = "log"
        else:
            continue
        with suppress(FileNotFoundError):  # it was renamed or removed
            sizes[kind] += path.stat().st_size
    return sizes
