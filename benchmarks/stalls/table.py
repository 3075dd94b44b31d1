"""Run the cases on the engine and on redis-server alternately, and print the table.

The table shows medians of the rounds, in milliseconds: the longest PING of a second client, the 99th percentile of its
PINGs, and the duration of the first client's command. The columns of a server that refuses the command are empty. The
engine's longest PING is marked if it exceeds ``benchmarks.targets.STALL_MS``.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

from benchmarks import servers, targets
from benchmarks.engine.client import Connection
from benchmarks.engine.flat import settled_memory
from benchmarks.stalls.cases import CASES, Case
from benchmarks.stalls.pings import DEADLINE, Pause, RefusedError, measure
from benchmarks.stalls.scenes import Bench, Scene

TITLE = "stalls"
_COLUMNS = 3
_AFTER = ", after"
_WIDTH = max(len(case.name) for _, cases in CASES for case in cases) + len(_AFTER)
Pauses = dict[str, list[Pause]]  # of each round, by server


class Stage:
    """A scene on one kind of server, prepared again after a case has spoiled it.

    ``rests``: whether to wait until the server has finished background work of the preparation, such as packing cold
    entries.
    """

    def __init__(self, name: str, start: list[str], scene: Scene, scale: float, *, rests: bool) -> None:
        self.name = name
        self._start = [*start, *scene.flags]
        self._scene = scene
        self._scale = scale
        self._rests = rests
        self._bench: Bench | None = None
        self._stack = ExitStack()

    def bench(self) -> Bench:
        """Return the server with its scene, which is prepared if necessary."""
        if self._bench is None:
            server = self._stack.enter_context(servers.running(self.name, self._start))
            connection = self._stack.enter_context(Connection(server.port, DEADLINE))
            bench = Bench(server, connection, self._scale, self._stack)
            self._scene.prepare(bench)
            if self._rests:
                settled_memory(connection, server.pid)
            self._bench = bench
        return self._bench

    def close(self) -> None:
        """Stop the server."""
        self._bench = None
        self._stack.close()


@contextmanager
def stages(scene: Scene, scale: float, only: str, *, rests: bool = True) -> Iterator[list[Stage]]:
    """Yield the scene on each installed server whose name contains ``only``."""
    starts = {"engine": servers.engine_command(), "redis": servers.redis_command()}
    there = [
        Stage(name, start, scene, scale, rests=rests)
        for name, start in starts.items()
        if start is not None and only in name
    ]
    try:
        yield there
    finally:
        for stage in there:
            stage.close()


def run_case(case: Case, there: list[Stage], rounds: int) -> tuple[Pauses, Pauses]:
    """Measure a case on each server. Return the pauses until the reply, and the pauses after it."""
    answered: Pauses = {stage.name: [] for stage in there}
    later: Pauses = {stage.name: [] for stage in there}
    for _ in range(rounds):
        for stage in there:
            bench = stage.bench()
            try:
                until_reply, after_reply = measure(bench.server.port, case.request(bench), case.after)
            except RefusedError:
                continue
            answered[stage.name].append(until_reply)
            if after_reply is not None:
                later[stage.name].append(after_reply)
            if case.spoils:
                stage.close()
    return answered, later


def medians(pauses: list[Pause]) -> Pause | None:
    """Return the medians of the rounds; None if there are no rounds."""
    if not pauses:
        return None
    return Pause(
        *(statistics.median(column) for column in zip(*(asdict(pause).values() for pause in pauses), strict=True))
    )


def shown(pauses: Pauses, *, with_duration: bool) -> str:
    """Return a row's columns, and a mark if the engine's longest PING misses its target."""
    cells = []
    for rounds in pauses.values():
        median = medians(rounds)
        numbers = (
            [None] * _COLUMNS if median is None else [median.worst, median.p99, median.own if with_duration else None]
        )
        cells.append("".join(f"{'':10}" if number is None else f"{number:10.1f}" for number in numbers))
    ours = medians(pauses.get("engine", []))
    rest = [] if ours is None else ["" if ours.worst <= targets.STALL_MS else "MISSED"]
    return "  ".join([*cells, *rest])


def head(there: list[str]) -> str:
    """Return the heading of the table."""
    names = "  ".join(f"{name:^{10 * _COLUMNS}}" for name in there)
    columns = "  ".join(f"{'longest':>10}{'99 %':>10}{'command':>10}" for _ in there)
    return f"{'':{_WIDTH}}{names}\n{'concurrent PING, milliseconds':{_WIDTH}}{columns}"


def run(scale: float, rounds: int, only: str = "", server: str = "") -> dict[str, Any]:
    """Measure the cases whose name contains ``only``; print and return the figures."""
    results: list[dict[str, Any]] = []
    titled = False
    for scene, cases in CASES:
        wanted = [case for case in cases if only in case.name]
        if not wanted:
            continue
        with stages(scene, scale, server) as there:
            if not titled:
                print(f"Medians of {rounds} rounds; sizes are those in the names, times {scale:g}.")
                print(head([stage.name for stage in there]))
                titled = True
            for case in wanted:
                answered, later = run_case(case, there, rounds)
                for name, pauses in ((case.name, answered), (case.name + _AFTER, later)):
                    if name == case.name or case.after:
                        print(f"{name:{_WIDTH}}{shown(pauses, with_duration=pauses is answered)}".rstrip(), flush=True)
                        milliseconds = {kind: [asdict(pause) for pause in found] for kind, found in pauses.items()}
                        results.append({"case": name, "scene": scene.name, "milliseconds": milliseconds})
    return {"scale": scale, "target_ms": targets.STALL_MS, "results": results}
