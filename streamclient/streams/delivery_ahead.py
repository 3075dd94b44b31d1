"""Delivery of a batch before it is planned: how far the group gets tells where the batch ends.

To find a batch's end its entries are passed once, and to have them pending they are delivered. A delivery without its
reply is both: afterwards XINFO GROUPS tells the ID that the group has reached. That ID is the batch's end only if the
group began where the batch does, and if nobody else has read from it meanwhile. Redis 7 counts what a group reads, as
long as no entries are deleted in between.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from streamclient.connection import Connection
from streamclient.streams import delivery
from streamclient.streams.entries import xrange
from streamclient.streams.model import Counted, Cut, GroupState
from streamclient.streams.redis_streams import RedisStreams
from streamwire.stream_id import StreamId


def deliver(
    streams: RedisStreams,
    connection: Connection,
    stream: str,
    after: StreamId,
    shares: Sequence[tuple[str, int]],
    group: str,
) -> Generator[None, None, Counted | None]:
    """Deliver what is behind `after`, as `StreamServer.deliver_ahead` says. `streams` asks over the same `connection`.

    A page whose connection breaks is not sent again: it may have been delivered.
    """
    begun = _group_of(streams, stream, group)
    if begun is None or begun.last_delivered_id != after or begun.entries_read is None:
        return None
    if not connection.can_skip_replies():
        return None
    cuts: list[Cut] = []
    read = begun.entries_read
    for consumer, count in shares:
        left = count
        while left:
            some = min(left, delivery.PAGE)
            page = ("XREADGROUP", "GROUP", group, consumer, "COUNT", some, "STREAMS", stream, ">")
            connection.receive(connection.request([("CLIENT", "REPLY", "SKIP"), page, xrange.empty_read(stream)]))
            left -= some
            yield
        read += count
        now = _group_of(streams, stream, group)
        if now is None or now.entries_read != read:
            return None
        cuts.append((now.last_delivered_id, count))
    return Counted([cuts[-1][0]], sum(count for _, count in shares), cuts)


def _group_of(streams: RedisStreams, stream: str, group: str) -> GroupState | None:
    state = streams.states([stream], group)[stream]
    return None if state is None else state.group
