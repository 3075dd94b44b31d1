"""The lease on a consumer group: of two queries with one group, the second is refused.

A lease is a key beside the stream with the query's ID. It expires by itself, and the query renews it as it plans
batches; a query that was killed has the same ID when it is started again with its checkpoint. A server that refuses the
key (its user may not write it, its memory is full) is read without a lease.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from spark_streams.config.read import ReadOptions
from spark_streams.errors import ServerError, fail
from spark_streams.server.api import StreamServer

_log = logging.getLogger("spark_streams")


class Lease:
    """A query's leases on its group in each of its streams. `clock` gives seconds."""

    def __init__(self, options: ReadOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._renewed: dict[str, float] = {}
        self._query = ""
        self._refused = options.group is None or options.ack == "none"

    @property
    def held(self) -> bool:
        """Whether the query has a lease that it could give up."""
        return bool(self._renewed) and not self._refused

    def renew(self, server: StreamServer) -> None:
        """Renew the leases that are due. Raises GROUP_TAKEN if another query has got one meanwhile."""
        if self._renewed:
            self.hold(server, self._query, self._renewed)

    def hold(self, server: StreamServer, query: str, streams: Iterable[str]) -> None:
        """Take or renew the leases on these streams that are due. Raises GROUP_TAKEN if another query has one."""
        if self._refused:
            return
        options, now = self._options, self._clock()
        due = now - options.lease / 3000
        wanted = [stream for stream in streams if self._renewed.get(stream, due) <= due]
        if not wanted:
            return
        self._query = query
        new = [stream for stream in wanted if stream not in self._renewed]
        try:
            owners = server.hold(wanted, options.group or "", query, options.lease, new if options.takeover else ())
        except ServerError as refusal:
            if refusal.condition != "SERVER_REFUSED":
                raise
            _log.warning("The group %s is read without a lease: %s", options.group, refusal)
            self._refused = True
            return
        for stream, owner in owners.items():
            if owner not in (query, None):
                fail("GROUP_TAKEN", group=options.group, stream=stream, owner=owner, seconds=options.lease // 1000)
        self._renewed.update(dict.fromkeys(wanted, now))

    def give_up(self, server: StreamServer) -> None:
        """Let another query have the group at once."""
        server.let_go(list(self._renewed), self._options.group or "", self._query)
        self._renewed.clear()
