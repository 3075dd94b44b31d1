"""The end of the next batch, found while the tasks of this one read.

A server without the engine's commands does not count: to find a batch's last entry, all of its entries are read once
(`StreamServer.nths`), or they are delivered to the query's group, which has to be done sooner or later
(`StreamServer.deliver_ahead`). A query that has more to read than a batch may have begins with that when the tasks of a
batch begin, in a thread with a connection of its own, so that the next trigger does not wait for it.

What was found decides nothing by itself: it answers the next batch's question if that is the same one, and if nothing
behind the position is gone. Otherwise it is dropped, and the server is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from spark_streams.errors import PystreamsError
from spark_streams.read.ranges.background import Background
from spark_streams.read.ranges.owned_group import OwnedGroup
from streamclient.config.address import Address
from streamclient.streams.api import StreamServer
from streamclient.streams.model import Counted, StreamState
from streamwire.stream_id import StreamId

_log = logging.getLogger("spark_streams")
_MANY = 10_000  # entries: finding the end of fewer takes no longer than a thread takes to begin


@dataclass(frozen=True)
class Question:
    """Which entry of `stream` is the `count`-th in (after, upto]? `added`: entries ever added up to `after`.

    `total`: entries ever added to the stream. `parts`: in how many the batch is to be cut. `generation` is that of the
    connection that told so: after a failover the stream may be another one.
    """

    stream: str
    after: StreamId
    added: int
    count: int
    upto: StreamId
    generation: int
    total: int = 0
    parts: int = 1

    def has_all(self, state: StreamState) -> bool:
        """Whether the stream's state shows that nothing is gone behind `after`, and is not that of a smaller stream."""
        if state.entries_added is None or state.first_id is None or state.entries_added < self.total:
            return False
        if state.first_id > self.after:
            return state.length == state.entries_added - self.added
        return state.max_deleted_id <= self.after


class Ahead:
    """A query's question about its next batch, one at a time, and what was found."""

    def __init__(self, address: Address, group: OwnedGroup) -> None:
        self._background = Background(address)
        self._group = group
        self._next: Question | None = None  # to be asked when this batch is planned
        self._question: Question | None = None  # that was asked
        self._found: Counted | None = None

    @property
    def delivers(self) -> frozenset[str]:
        """The stream whose next batch `begin` delivers, behind all of this one; none if it does not."""
        is_due = self._next is not None and self._group.delivers_ahead
        return frozenset([self._next.stream] if self._next is not None and is_due else ())

    def note(self, question: Question, state: StreamState) -> None:
        """What is to be asked next, if it is worth a thread, and sure to be of use."""
        self._next = question if question.count >= _MANY and question.has_all(state) else None

    def begin(self) -> None:
        """Look for what was noted, in the background. Call it last: while it looks, the planner itself is slower."""
        delivers = self.delivers
        question, self._next = self._next, None
        if question is not None:
            self._settle()
            self._question, self._found = question, None
            if delivers:
                self._group.begin_ahead(question.stream, question.after, question.added)
            self._background.begin(partial(self._look, question, bool(delivers)))

    def _look(self, question: Question, delivers: bool, server: StreamServer) -> Iterator[None]:
        found = None
        if delivers:
            found = yield from self._group.deliver_ahead(server, question.stream, question.count, question.parts)
        self._found = found or server.look_ahead(question.stream, question.after, question.count, question.upto)
        yield

    def tell(
        self,
        server: StreamServer,
        generation: int,
        starts: Mapping[str, StreamId],
        states: Mapping[str, StreamState | None],
    ) -> None:
        """Have the server know what was found, if the next batch begins there and it still holds."""
        question, self._question = self._question, None
        if question is None or starts.get(question.stream) != question.after:
            return
        self._settle()
        found, state = self._found, states.get(question.stream)
        if found is None or state is None or question.generation != generation:
            return
        if found.cuts and state.group is None:  # as the group to which it was delivered, the stream may be another one
            return
        if question.has_all(state):
            server.know(question.stream, question.after, found)

    def _settle(self) -> None:
        """Wait for the search under way. Where it failed, the query asks again, and hears of it then."""
        try:
            self._background.wait()
        except PystreamsError as problem:
            self._found = None
            _log.info("The end of the next batch was not found ahead: %s", problem)

    def stop(self) -> None:
        """The query has ended: nothing more is delivered, for another one may have the group next."""
        self._group.stop()
        self._background.give_up()

    def take_back(self, server: StreamServer) -> None:
        """Have nothing pending that no batch has asked for."""
        self._group.take_back(server)
