"""Lookahead: search for the end of the next batch while the tasks of the current batch read.

A server without the engine's commands cannot count entries. To find a batch's last entry, all of its entries are read
once (`Entries.nths`) or delivered to the query's group, which is necessary anyway (`GroupReads.ahead`). If a query has
more entries than fit into a batch, it starts this search when the tasks of a batch start. The search runs in a thread
with its own connection, so that the next trigger does not wait for it.

The result never determines a batch by itself. It is used if the next batch begins where the search began and no
entry after this position is gone. Otherwise it is dropped, and the server is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial

from spark_streams.errors import PystreamsError
from spark_streams.read.ranges.background import Background
from spark_streams.read.ranges.owned_group import OwnedGroup
from spark_streams.read.ranges.plan import Facts, Question
from streamclient.config.address import Address
from streamclient.streams.model import Counted
from streamclient.streams.stream_server import StreamServer

_log = logging.getLogger("spark_streams")

#: A question, and the generation of the connection on which it was planned. After a failover the generation is another
#: one, and the answer is dropped, because the stream may differ.
Noted = tuple[Question, int]


class Lookahead:
    """A query's question about its next batch, one at a time, and the answer."""

    def __init__(self, address: Address, group: OwnedGroup) -> None:
        self._background = Background(address)
        self._group = group
        self._next: Noted | None = None  # to be asked when the tasks of the current batch start
        self._asked: Noted | None = None
        self._found: Counted | None = None

    @property
    def delivers(self) -> frozenset[str]:
        """The stream whose next batch is delivered by `start`, as a set; empty if no delivery is due."""
        is_due = self._next is not None and self._group.delivers_ahead
        return frozenset([self._next[0].stream] if self._next is not None and is_due else ())

    def note(self, question: Question | None, generation: int) -> None:
        """Set the question to ask when the tasks of the batch start; None for no question."""
        self._next = None if question is None else (question, generation)

    def start(self) -> None:
        """Search for the answer in the background. Call this last, since the search slows down the planner."""
        delivers = self.delivers
        noted, self._next = self._next, None
        if noted is not None:
            self._settle()
            self._asked, self._found = noted, None
            question, _ = noted
            if delivers:
                self._group.note_delivery(question.stream, question.after, question.added)
            self._background.start(partial(self._search, question, bool(delivers)))

    def _search(self, question: Question, delivers: bool, server: StreamServer) -> Iterator[None]:
        found = None
        if delivers:
            found = yield from self._group.deliver_ahead(server, question.stream, question.count, question.parts)
        self._found = found or server.entries.look_ahead(question.stream, question.after, question.count, question.upto)
        yield

    def pass_answer(self, server: StreamServer, generation: int, facts: Facts) -> None:
        """Pass the answer to `server` if the next batch begins at the question's position and the answer is valid."""
        requested, self._asked = self._asked, None
        if requested is None or facts.starts.get(requested[0].stream) != requested[0].after:
            return
        self._settle()
        question, known_to = requested
        found, state = self._found, facts.states.get(question.stream)
        if found is None or state is None or known_to != generation:
            return
        # If the group that received the delivery is gone, the stream may have been replaced.
        if found.cuts and state.group is None:
            return
        if question.has_all(state):
            server.entries.preload(question.stream, question.after, found)

    def _settle(self) -> None:
        """Wait for a running search. After a failure the query asks again, and gets the error then."""
        try:
            self._background.wait()
        except PystreamsError as problem:
            self._found = None
            _log.info("The search for the end of the next batch failed: %s", problem)

    def stop(self) -> None:
        """Stop delivering: the query has ended, and another one may use the group next."""
        self._group.stop()
        self._background.give_up()

    def undo(self, server: StreamServer) -> None:
        """Undo deliveries that no batch has requested."""
        self._group.undo(server)
