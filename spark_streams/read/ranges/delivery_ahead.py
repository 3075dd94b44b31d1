"""Delivery ahead: if a query is behind, its next batch is delivered to the group before the batch is planned.

This also finds the batch's end (`GroupReads.ahead`). Delivery ahead does not affect the contents of batches. The
delivered entries are pending, like the entries of a batch whose driver was killed, and a later batch does not deliver
them again.

This module chooses the consumers for these entries, so that the running batch can be acknowledged separately. It undoes
the delivery when the query is stopped, because the entries might not be read soon.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator
from dataclasses import dataclass

from spark_streams.config.read import ReadOptions
from streamclient.streams.model import Counted
from streamclient.streams.stream_server import StreamServer
from streamwire.stream_id import LAST, StreamId


@dataclass
class _Delivery:
    """Delivery of the entries after `after`.

    `added`: entries ever added up to `after`. `consumers`: the consumers that get the entries; None until they are
    chosen. `reached`: the last delivered ID; None while it is unknown.
    """

    after: StreamId
    added: int
    consumers: list[str] | None = None
    reached: StreamId | None = None


class DeliveryAhead:
    """Deliveries for a batch that is not planned yet: announced, running or finished. One stream at a time has such a
    delivery.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._deliveries: dict[str, _Delivery] = {}

    def furthest(self, stream: str) -> StreamId | None:
        """Return the furthest position that the stream's group may have after a delivery ahead; None if there is none.

        While the delivery's end is unknown, this is the largest possible ID.
        """
        delivery = self._deliveries.get(stream)
        return None if delivery is None else delivery.reached or LAST

    def announce(self, stream: str, after: StreamId, added: int) -> None:
        """Announce the next call of `deliver`, which may be in another thread."""
        self._deliveries[stream] = _Delivery(after, added)

    def deliver(
        self, server: StreamServer, stream: str, count: int, parts: int
    ) -> Generator[None, None, Counted | None]:
        """Deliver this number of entries in parts of equal size; see `GroupReads.ahead`."""
        group, delivery = self._options.group or "", self._deliveries[stream]
        consumers = server.groups.consumers([stream], group)[stream]
        if not consumers:  # the running batch has consumers, so the group has been deleted
            return None
        delivery.consumers = self._free_names({name for name, pending in consumers if pending}, parts)
        ends = [count * part // parts for part in range(parts + 1)]
        shares = [
            (name, end - begin) for name, (begin, end) in zip(delivery.consumers, itertools.pairwise(ends), strict=True)
        ]
        found = yield from server.group_reads.ahead(stream, delivery.after, shares, group)
        delivery.reached = None if found is None else found.marks[-1]
        return found

    def _free_names(self, taken: set[bytes], parts: int) -> list[str]:
        """Return the first block of `parts` consecutive consumer names of the query that are all free."""
        for first in itertools.count(0, parts):
            names = [f"{self._options.consumer}-{first + part}" for part in range(parts)]
            if taken.isdisjoint(name.encode() for name in names):
                return names
        raise AssertionError("not reached: the numbers are unlimited")

    def planned(self, stream: str, after: StreamId) -> None:
        """Forget a delivery ahead whose entries are in the batch that was planned from the position `after`."""
        delivery = self._deliveries.get(stream)
        if delivery is not None and after >= delivery.after:
            del self._deliveries[stream]

    def undo(self, server: StreamServer, *, sets_count: bool) -> None:
        """Move the group to the end of the last planned batch, and delete the consumers of the delivery.

        A group that another client has moved stays unchanged.
        """
        group = self._options.group or ""
        for stream, delivery in self._deliveries.items():
            state = server.states.of([stream], group)[stream]
            position = None if state is None or state.group is None else state.group.last_delivered_id
            if (
                position is None
                or position <= delivery.after
                or not delivery.consumers
                or delivery.reached not in (None, position)
            ):
                continue
            server.groups.set_positions({stream: (delivery.after, delivery.added if sets_count else None)}, group)
            server.groups.delete_consumers([(stream, name.encode()) for name in delivery.consumers], group)
        self._deliveries.clear()
