"""Writing at least once: XADDs, sent in chunks, every reply read, no records kept.

Chunks are made while the server works on the one before; what has been sent and not yet answered is at most two
chunks. What a broken connection leaves unanswered is sent again, so some of it may be there twice; so is what a task
writes that Spark repeats. A row that is refused fails the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import redis

from spark_streams.client.connection import BROKEN, Connection, Link
from spark_streams.client.link import Command
from spark_streams.client.replies import end_of_ids, pack, parse
from spark_streams.client.retry import Budget, is_permanent, is_transient
from spark_streams.config.write import WriteOptions
from spark_streams.errors import fail
from spark_streams.write.encoding import Parcel
from spark_streams.write.trimming import trims

_AHEAD = 2


@dataclass
class _Sent:
    """A parcel under way; `link` is None where it has yet to be sent."""

    parcel: Parcel
    link: Link | None = None
    word: bytes = b""
    trims: int = 0


class PlainSender:
    """Takes a task's parcels."""

    def __init__(self, connection: Connection, options: WriteOptions, overwrite: bool = False) -> None:
        self.floors: dict[bytes, str] = {}
        """Where each stream ended before this task wrote to it, if it is to be overwritten."""
        self._connection = connection
        self._options = options
        self._overwrite = overwrite
        self._chunks: list[list[_Sent]] = []
        self._links: set[Link] = set()  # those that have confirmed rows

    def submit(self, parcels: Sequence[Parcel]) -> None:
        """Send these, and read the replies to what was sent before those."""
        chunk = [_Sent(parcel) for parcel in parcels]
        for parcel in parcels:
            if self._overwrite and parcel.stream not in self.floors:
                self._settle_all()
                self.floors[parcel.stream] = self._last_id(parcel.stream)
        for sent in chunk:
            try:
                self._send(sent)
            except (*BROKEN, LookupError) as cause:
                self._lost(sent, cause)
        self._chunks.append(chunk)
        while len(self._chunks) >= _AHEAD:
            self._settle(self._chunks.pop(0))

    def finish(self) -> None:
        """Read all replies that are due."""
        self._settle_all()
        if self._options.wait_replicas:
            self._replicate()

    def _settle_all(self) -> None:
        while self._chunks:
            self._settle(self._chunks.pop(0))

    def _last_id(self, stream: bytes) -> str:
        (info,) = self._connection.pipeline([("XINFO", "STREAM", stream)])
        if _is_error(info):
            if "no such key" in str(info):
                return "0-0"
            fail("SERVER_REFUSED", address=self._connection.address, command="XINFO", reason=info)
        return str(info[info.index(b"last-generated-id") + 1].decode())

    def _send(self, sent: _Sent) -> None:
        commands: list[Command] = trims(sent.parcel.stream, self._options)
        link = self._connection.link(sent.parcel.stream)
        sent.link, sent.trims = link, len(commands)
        sent.word = link.send_raw(sent.parcel.commands, *(pack(*command) for command in commands))

    def _lost(self, sent: _Sent, cause: BaseException) -> None:
        self._connection.drop(sent.link)
        sent.link = None
        if is_permanent(cause):
            raise self._connection.unreachable(cause) from None

    def _settle(self, chunk: list[_Sent]) -> None:
        for sent in chunk:
            budget: Budget | None = None
            while True:
                cause: BaseException | None = None
                try:
                    if sent.link is None:
                        self._send(sent)
                    if self._answered(sent):
                        break
                except (*BROKEN, LookupError) as failure:
                    self._lost(sent, failure)
                    cause = failure
                budget = budget or Budget(self._connection.address.retry_ms)
                if not budget.pause():
                    if cause is not None:
                        raise self._connection.unreachable(cause) from cause
                    fail("WRITE_CONTENDED", address=self._connection.address)

    def _answered(self, sent: _Sent) -> bool:
        """Whether all rows are in; those that are refused for the moment are what is left of the parcel."""
        assert sent.link is not None
        link, parcel = sent.link, sent.parcel
        buffer, stop = link.receive(sent.word)
        self._links.add(link)
        end = end_of_ids(buffer, 0, stop, len(parcel))
        if end >= 0 and (end == stop or not any(map(_is_error, parse(bytes(buffer[end:stop]))))):
            return True
        replies = parse(bytes(buffer[:stop]))
        left: list[int] = []
        refusal = ""
        for at, reply in enumerate(replies[: len(parcel)]):
            if is_transient(reply):
                left.append(at)
                refusal = str(reply)
            elif reply is None or _is_error(reply):
                name = parcel.stream.decode("utf-8", "backslashreplace")
                reason = reply if reply is not None else f"the stream {name} does not exist."
                fail("ROW_REFUSED", row=int(parcel.rows[at]), address=self._connection.address, reason=reason)
        for reply in replies[len(parcel) :]:
            if _is_error(reply) and not is_transient(reply):
                fail("SERVER_REFUSED", address=self._connection.address, command="XTRIM", reason=reply)
        if not left:
            return True
        self._redirect(sent, _picked(parcel, left), refusal)
        return False

    def _redirect(self, sent: _Sent, parcel: Parcel, refusal: str) -> None:
        link, sent.link, sent.parcel = sent.link, None, parcel
        if refusal.startswith("MOVED "):
            self._connection.topology.learn_moved(refusal)
        elif refusal.startswith("ASK "):
            asked = self._connection.link_to(self._connection.topology.asked(refusal))
            asking = pack("ASKING")
            bounds = parcel.bounds.tolist()
            rows = [asking + bytes(parcel.commands[a:b]) for a, b in pairwise(bounds)]
            replies = parse(self._asked(asked, b"".join(rows)))[1::2]
            left = [at for at, reply in enumerate(replies) if _is_error(reply)]
            if left:
                sent.parcel = _picked(parcel, left)
            else:
                sent.parcel = parcel.part(0, 0)
        elif not refusal.startswith("TRYAGAIN"):
            self._connection.drop(link)

    @staticmethod
    def _asked(link: Link, data: bytes) -> bytes:
        buffer, stop = link.receive(link.send_raw(data))
        return bytes(buffer[:stop])

    def _replicate(self) -> None:
        options, address = self._options, self._connection.address
        for link in self._links:
            try:
                (found,) = link.pipeline([("WAIT", options.wait_replicas, options.wait_timeout)])
            except BROKEN:
                # Another connection's WAIT says nothing of what this one has confirmed; it may lead to another master.
                self._connection.drop(link)
                fail("NOT_REPLICATED", wanted=options.wait_replicas, found="An unknown number of", address=address)
            if _is_error(found):
                fail("SERVER_REFUSED", address=address, command="WAIT", reason=found)
            if found < options.wait_replicas:
                fail("NOT_REPLICATED", wanted=options.wait_replicas, found=found, address=address)


def _is_error(reply: object) -> bool:
    return isinstance(reply, redis.ResponseError)


def _picked(parcel: Parcel, places: list[int]) -> Parcel:
    """Some of a parcel's rows."""
    pieces = [bytes(parcel.commands[int(parcel.bounds[at]) : int(parcel.bounds[at + 1])]) for at in places]
    bounds = np.concatenate(([0], np.cumsum([len(piece) for piece in pieces])))
    ids = None if parcel.ids is None else [parcel.ids[at] for at in places]
    return Parcel(parcel.stream, memoryview(b"".join(pieces)), bounds, parcel.rows[places], ids)
