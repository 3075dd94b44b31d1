"""Lease on a consumer group: if two queries use one group, the second query is refused.

A lease is a key next to the stream with the IDs of the query and the run: `<query>:<run>`. A lease expires by itself. A
thread renews it, three times in the lease's duration, while the process lives. So neither a long batch nor a paused
JVM loses the lease, and it expires soon after the process is killed. A query that restarts with its checkpoint has the
same ID and immediately takes the lease from its earlier run. If the earlier run is still active because the checkpoint
was copied, it finds that its lease was taken, and fails.

Rows never depend on a lease, only on offsets. The lease prevents a second query from moving the group and from
acknowledging entries. In a shared group, it prevents a second query from using the first query's consumer names.

If the server refuses to store a lease, the query logs a warning and continues without it. The query retries at
intervals of half the lease's duration, because most refusals are temporary: the server is currently a replica, or its
memory is full. The query does not retry if the first lease is refused because the user lacks a permission or the server
does not have a command.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from types import FrameType
from typing import NoReturn

from spark_streams.config.read import ReadOptions
from spark_streams.errors import PystreamsError, ServerError, fail
from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.routing import UNREACHABLE
from streamclient.streams.stream_server import StreamServer, open_server

_log = logging.getLogger("spark_streams")
_STOP_SECONDS = 2.0  # maximum wait at the end of a query for a renewal in progress
#: Permanent refusals, which are retried only if the user could write a lease before.
_PERMANENT = frozenset({"NOT_PERMITTED", "UNKNOWN_COMMAND"})


def _clock() -> float:
    """Return the time in seconds, including time in which the machine was suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """One run's leases on its group in each of its streams.

    `clock` returns seconds.
    """

    def __init__(self, options: ReadOptions, address: Address, clock: Callable[[], float] = _clock) -> None:
        self._options = options
        self._address = address
        self._clock = clock
        self._query = ""
        self._run = secrets.token_hex(4)
        self._renewed: dict[str, float] = {}
        self._lost: tuple[str, str] | None = None  # a stream, and the holder of its lease
        self._is_new = False  # whether no earlier run of the query can hold a lease
        self._has_none = options.group is None
        self._refused: float | None = None  # time of the last refusal; None after a success
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def _name(self) -> str:
        return lease_name(self._options, shared=self._options.shared)

    @property
    def _holder(self) -> str:
        return f"{self._query}:{self._run}"

    def mark_new(self) -> None:
        """Record that there is no earlier run. So a lease with this query's ID belongs to another query with the same
        options.
        """
        self._is_new = not self._renewed

    def renew(self, server: StreamServer, streams: Collection[str] | None = None) -> None:
        """Renew the leases that the thread could not renew in time, and release those on streams that are not in
        `streams` (None: all are kept).

        Raises the errors of `hold` if another query has taken a lease meanwhile.
        """
        if streams is not None and self._renewed:
            self._release(server, set(self._renewed) - set(streams))
        if self._renewed:
            self.hold(server, self._query, self._renewed)

    def hold(self, server: StreamServer, query: str, streams: Iterable[str]) -> None:
        """Take the leases on these streams, or renew leases that are due.

        Raises GROUP_TAKEN (CONSUMERS_TAKEN in a shared group) if another query holds a lease, and RUN_REPLACED if a
        later run of this query holds a lease.
        """
        if self._has_none:
            return
        if self._lost is not None:
            self._fail(*self._lost)
        due = self._clock() - self._options.lease / 2000
        wanted = sorted(stream for stream in streams if self._renewed.get(stream, due) <= due)
        if not wanted or (self._refused is not None and self._refused > due):
            return
        self._query = query
        old = [stream for stream in wanted if stream in self._renewed]
        new = [stream for stream in wanted if stream not in self._renewed]
        try:
            # If two queries start at the same time, the query that gets the first stream also gets the others.
            taken = (
                self._acquire(server, old) or self._acquire_new(server, new[:1]) or self._acquire_new(server, new[1:])
            )
            if taken is not None:
                server.leases.release(new, self._name, self._holder)
        except ServerError as refusal:
            if refusal.condition != "SERVER_REFUSED" and refusal.condition not in _PERMANENT:
                raise
            if self._refused is None:
                _log.warning("The group %s is read without a lease: %s", self._options.group, refusal)
            self._refused = self._clock()
            self._has_none = refusal.condition in _PERMANENT and not self._renewed
            return
        self._refused = None
        if taken is not None:
            self._fail(*taken)
        if self._thread is None:
            seconds = self._options.lease / 3000
            self._thread = threading.Thread(target=_keep, args=(weakref.ref(self), self._ended, seconds), daemon=True)
            weakref.finalize(self, self._ended.set)
            self._thread.start()
            _when_spark_ends_this_process(self.give_up)

    def _release(self, server: StreamServer, streams: Collection[str]) -> None:
        """Release the leases on streams that the query no longer reads, so that their number does not grow."""
        for stream in streams:
            del self._renewed[stream]
        if streams:
            with contextlib.suppress(ServerError):  # they expire
                server.leases.release(sorted(streams), self._name, self._holder)

    def _acquire(
        self, server: StreamServer, streams: Sequence[str], forced: Sequence[str] = ()
    ) -> tuple[str, str] | None:
        """Take or renew these leases. Leases on the streams in `forced` are taken even from another run.

        Return a stream whose lease another run still holds, and the holder; None if there is no such stream.
        """
        if not streams:
            return None
        now = self._clock()
        owners = server.leases.acquire(streams, self._name, self._holder, self._options.lease, forced)
        others = {stream: owner for stream, owner in owners.items() if owner is not None and owner != self._holder}
        self._renewed.update(dict.fromkeys(owners.keys() - others.keys(), now))
        return next(iter(others.items()), None)

    def _acquire_new(self, server: StreamServer, streams: Sequence[str]) -> tuple[str, str] | None:
        """Like `_acquire`, but also take leases from earlier runs of this query; with groupTakeover, from any run."""
        forced: Sequence[str] = streams if self._options.takeover else ()
        taken = self._acquire(server, streams, forced)
        while taken is not None and taken[1].partition(":")[0] == self._query and not self._is_new:
            forced = [*forced, taken[0]]
            taken = self._acquire(server, streams, forced)
        return taken

    def _fail(self, stream: str, owner: str) -> NoReturn:
        options, query = self._options, owner.partition(":")[0]
        if query == self._query and (not self._is_new or self._renewed):
            fail("RUN_REPLACED", group=options.group, stream=stream, owner=query)
        seconds = -(-options.lease // 1000)
        if options.shared:
            prefix = options.consumer
            fail("CONSUMERS_TAKEN", group=options.group, stream=stream, owner=query, prefix=prefix, seconds=seconds)
        fail("GROUP_TAKEN", group=options.group, stream=stream, owner=query, seconds=seconds)

    def beat(self) -> None:
        """Renew all leases through a separate connection. If that fails, the next beat or trigger retries."""
        with contextlib.suppress(PystreamsError, *UNREACHABLE), self._server() as server:
            self._lost = self._lost or self._acquire(server, list(self._renewed))

    @contextlib.contextmanager
    def _server(self) -> Iterator[StreamServer]:
        with contextlib.closing(Connection(replace(self._address, retry_ms=0))) as connection:
            yield open_server(connection)

    def give_up(self) -> None:
        """Release the leases, so that another query can use the group at once."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
        if self._renewed:
            with contextlib.suppress(PystreamsError, *UNREACHABLE), self._server() as server:
                server.leases.release(list(self._renewed), self._name, self._holder)
        self._renewed.clear()


def lease_name(options: ReadOptions, *, shared: bool) -> str:
    """Return the name of a query's lease on its group, or on its consumer names if the group is `shared`."""
    group = options.group or ""
    return f"{len(group)}:{group}" + (f":{options.consumer}" if shared else "")


def _keep(lease: weakref.ref[Lease], ended: threading.Event, seconds: float) -> None:
    """Renew a lease until its query ends or is garbage-collected."""
    while not ended.wait(seconds):
        held = lease()
        if held is None:
            return
        held.beat()
        del held


def _when_spark_ends_this_process(give_back: Callable[[], None]) -> None:
    """Call `give_back` when Spark ends this process, if Spark started it to plan a query.

    Spark sends SIGTERM to such a process and does not call the reader's `stop`. Other processes keep their own
    handlers.
    """
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if (
        spec is None
        or not spec.name.startswith("pyspark.")
        or threading.current_thread() is not threading.main_thread()
    ):
        return

    def end(number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Spark may send it twice
        give_back()
        os._exit(128 + number)  # ends the process without the traceback of an exception

    signal.signal(signal.SIGTERM, end)
