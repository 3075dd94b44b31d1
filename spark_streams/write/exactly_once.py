"""Writing every row exactly once: chunks as transactions that advance the fences of the streams they go to.

One transaction holds the rows of one slot (of all streams, where there is no cluster):

    WATCH fence...; HMGET fence...          what is there already? `Lane` says what is left to write
    MULTI; XADD...; XTRIM...; HSET fence...; PEXPIRE fence...; EXEC

so either all of it is in, fences included, or nothing. If EXEC finds a fence changed, or the connection breaks and
nobody knows whether EXEC came through, the fences are looked at again and tell. The next chunk's WATCH goes out behind
EXEC, and the next chunk is made while the server works, so a chunk costs one round trip.

A transaction is not undone where one of its commands fails when it is executed. What could fail then is ruled out
before: that the key is not a stream, that NOMKSTREAM finds none, that a row's own ID is too small (then the stream is
watched too, for nobody else may add to it meanwhile). Should a row still be refused, the fence is made to say so, and
every later attempt fails with the same words instead of leaving the row out in silence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import redis

from spark_streams.client.connection import BROKEN, Connection, Link
from spark_streams.client.link import Command
from spark_streams.client.replies import TransactionResult, pack, transaction_result
from spark_streams.client.retry import Budget, is_permanent, is_transient
from spark_streams.client.slots import slot_of
from spark_streams.config.write import WriteOptions
from spark_streams.errors import fail
from spark_streams.stream_id import ZERO, StreamId
from spark_streams.write.encoding import Parcel
from spark_streams.write.fence import FIELDS, Lane, State, Writer
from spark_streams.write.trimming import trims

_BATCH_FENCE_MS = 86_400_000  # a batch write's fences are removed when it is finished; if it never is, a day later


class FencedSender:
    """Takes a task's parcels. `overwrite`: note where each stream ended before this write."""

    def __init__(
        self, connection: Connection, writer: Writer, options: WriteOptions, lasting: bool, overwrite: bool = False
    ) -> None:
        self.connection = connection
        self.options = options
        self.overwrite = overwrite
        self.fence_ms = options.fence_retention if lasting else _BATCH_FENCE_MS
        self._writer = writer
        self._lanes: dict[bytes, Lane] = {}
        self._couriers: dict[int, _Courier] = {}
        self._users: dict[Link, _Courier] = {}

    def submit(self, parcels: Sequence[Parcel]) -> None:
        """Send these; what was submitted before is in the streams when this returns, this may not be yet."""
        routed: dict[int, list[Parcel]] = {}
        for parcel in parcels:
            slot = slot_of(parcel.stream) if self.connection.topology.is_cluster else 0
            routed.setdefault(slot, []).append(parcel)
        for slot, together in routed.items():
            courier = self._couriers.setdefault(slot, _Courier(self))
            for runs in _runs(together):
                courier.finish()
                courier.begin(runs)

    def finish(self) -> list[Lane]:
        """Wait until everything is in the streams; gives the task's lanes."""
        for courier in self._couriers.values():
            courier.finish()
        for lane in self._lanes.values():
            lane.finish()
        if self.options.wait_replicas:
            for courier in self._couriers.values():
                courier.replicate()
        return [*self._lanes.values()]

    def lane(self, stream: bytes) -> Lane:
        found = self._lanes.get(stream)
        if found is None:
            found = self._lanes[stream] = Lane(stream, self._writer, self.connection.address)
        return found

    def claim(self, link: Link, courier: _Courier) -> None:
        """A link carries one transaction at a time: whoever used it before finishes first, and watches nothing more."""
        before = self._users.get(link)
        if before is not None and before is not courier:
            before.finish()
            before.watched.clear()
        self._users[link] = courier


def _runs(parcels: Sequence[Parcel]) -> list[list[Parcel]]:
    """Cut rows with IDs of their own from rows without: what the server will choose cannot be checked beforehand."""
    if all(parcel.ids is None for parcel in parcels):
        return [list(parcels)]
    runs: list[list[Parcel]] = []
    for parcel in parcels:
        if parcel.ids is None:
            runs.append([parcel])
            continue
        chosen = [each is not None and each != b"*" for each in parcel.ids]
        cuts = [0, *(i for i in range(1, len(chosen)) if chosen[i] != chosen[i - 1]), len(chosen)]
        for first, end in pairwise(cuts):
            part = parcel.part(first, end)
            runs.append([part if chosen[first] else Parcel(part.stream, part.commands, part.bounds, part.rows, None)])
    return runs


class _Courier:
    """Takes the parcels of one slot to the server that has it."""

    def __init__(self, sender: FencedSender) -> None:
        self.watched: set[bytes] = set()
        self._sender = sender
        self._connection = sender.connection
        self._parcels: list[Parcel] = []  # under way
        self._sent: list[tuple[Lane, Parcel, State]] = []  # what of them was sent, and what each fence will say
        self._link: Link | None = None
        self._word = b""
        self._asking = False  # ASKING stood before the transaction
        self._others = 0  # commands in the transaction that are no XADDs
        self._looks: list[Lane] = []  # lanes whose fences were asked for behind the transaction

    def begin(self, parcels: list[Parcel]) -> None:
        """Send what is not in the streams yet."""
        self._parcels = parcels
        self._with_patience(self._send)

    def finish(self) -> None:
        """Wait until what was begun is in the streams."""
        if self._parcels:
            self._with_patience(self._settle)

    def _with_patience(self, step: Any) -> None:
        """Do the step, again and again where that may help, until there is nothing left to do."""
        budget: Budget | None = None
        while True:
            try:
                if step():
                    return
                cause: BaseException | None = None
            except (*BROKEN, LookupError) as failure:
                self._lost()
                cause = failure
                if is_permanent(failure):
                    raise self._connection.unreachable(failure) from None
            budget = budget or Budget(self._connection.address.retry_ms)
            if not budget.pause():
                if cause is not None:
                    raise self._connection.unreachable(cause) from cause
                fail("WRITE_CONTENDED", address=self._connection.address)

    def _lost(self) -> None:
        self._connection.drop(self._link)
        self._link = None
        self.watched.clear()

    def _send(self) -> bool:
        """Send the transaction, and whether that could be done; what is under way may be in the streams already."""
        self._sent = []
        parcels = self._parcels
        lanes = [self._sender.lane(parcel.stream) for parcel in parcels]
        link = self._connection.link(parcels[0].stream)
        self._sender.claim(link, self)
        if link is not self._link:
            self._link = link
            self.watched.clear()
        prefix: tuple[Command, ...] = ()
        if any(lane.key not in self.watched for lane in lanes) or self._checks_streams():
            route = self._look(link, lanes)
            if route is None:
                return False
            link, prefix = route
        todo: list[tuple[Lane, Parcel, State]] = []
        for lane, parcel in zip(lanes, parcels, strict=True):
            done = lane.unwritten(parcel.commands, parcel.bounds)
            if done:
                part = parcel.part(0, done)
                lane.done(part.commands, done)
            rest = parcel.part(done, len(parcel)) if done else parcel
            if len(rest):
                self._check_ids(lane, rest)
                todo.append((lane, rest, lane.next_state(rest.commands, len(rest))))
        self._parcels = [parcel for _, parcel, _ in todo]
        if not todo:
            return True
        book: list[Command] = []
        for lane, _, state in todo:
            book += trims(lane.stream, self._sender.options)
            book.append(state.advance(lane.key))
            if self._sender.fence_ms:
                book.append(("PEXPIRE", lane.key, self._sender.fence_ms))
        self._others = len(book)
        self._looks = [] if prefix or self._checks_streams() else [lane for lane, _, _ in todo]
        after = [*self._look_commands(self._looks)]
        data: list[bytes | memoryview] = [pack(*command) for command in (*prefix, ("MULTI",))]
        data += [parcel.commands for _, parcel, _ in todo]
        data += [pack(*command) for command in (*book, ("EXEC",), *after)]
        self._sent = todo
        self.watched.clear()
        self._link = link
        self._asking = bool(prefix)
        self._word = link.send_raw(*data)
        return True

    def _checks_streams(self) -> bool:
        return self._sender.options.nomkstream or any(parcel.ids is not None for parcel in self._parcels)

    @staticmethod
    def _look_commands(lanes: Sequence[Lane]) -> list[Command]:
        if not lanes:
            return []
        return [("WATCH", *(lane.key for lane in lanes)), *(("HMGET", lane.key, *FIELDS) for lane in lanes)]

    def _look(self, link: Link, lanes: Sequence[Lane]) -> tuple[Link, tuple[Command, ...]] | None:
        """Watch the fences and read them, and the streams' state. None if the server is to be asked again later.

        In a cluster a slot may be on its way from one node to another, key by key. The stream and its fence must be at
        the same one: EXISTS of both together is refused (TRYAGAIN) while they are not.
        """
        commands: list[Command] = []
        if self._connection.topology.is_cluster:
            commands += [("EXISTS", lane.key, lane.stream) for lane in lanes]
        guards = len(commands)
        own_ids = [parcel.stream for parcel in self._parcels if parcel.ids is not None]
        commands += [("WATCH", *(lane.key for lane in lanes), *own_ids)]
        commands += [("HMGET", lane.key, *FIELDS) for lane in lanes]
        commands += [("XINFO", "STREAM", lane.stream) for lane in lanes]
        prefix: tuple[Command, ...] = ()
        replies = link.pipeline(commands)
        redirected = next((str(each) for each in replies if str(each).startswith("ASK ")), None)
        if redirected is not None and not any(str(each).startswith("TRYAGAIN") for each in replies):
            link = self._connection.link_to(self._connection.topology.asked(redirected))
            self._sender.claim(link, self)
            prefix = (("ASKING",),)
            replies = link.pipeline([each for command in commands for each in (*prefix, command)])[1::2]
        for command, reply in zip(commands, replies, strict=True):
            if isinstance(reply, redis.ResponseError) and command[0] != "XINFO":
                self._refused(str(reply), command)
                return None
        looks = replies[guards + 1 : guards + 1 + len(lanes)]
        streams = replies[guards + 1 + len(lanes) :]
        for lane, values, info in zip(lanes, looks, streams, strict=True):
            lane.last = self._last_id(lane, info)
            lane.look(values)
            if self._sender.overwrite and not lane.state.floor:
                lane.state = dataclasses.replace(lane.state, floor=str(lane.last))
            self.watched.add(lane.key)
        return link, prefix

    def _last_id(self, lane: Lane, info: Any) -> StreamId:
        """The stream's last ID; the server's refusal to tell it is judged."""
        if isinstance(info, redis.ResponseError):
            text = str(info)
            if text.startswith("WRONGTYPE"):
                fail("NOT_A_STREAM", stream=_text(lane.stream), address=self._connection.address)
            if "no such key" not in text:
                self._refused(text, ("XINFO",))
                raise redis.ConnectionError(text)  # not now: what is to be done then is done by the caller
            if self._sender.options.nomkstream:
                row = next(int(parcel.rows[0]) for parcel in self._parcels if parcel.stream == lane.stream)
                reason = f"the stream {_text(lane.stream)} does not exist."
                fail("ROW_REFUSED", row=row, address=self._connection.address, reason=reason)
            return ZERO
        return StreamId.parse(info[info.index(b"last-generated-id") + 1])

    def _check_ids(self, lane: Lane, parcel: Parcel) -> None:
        """Whether the server will take the rows' own IDs."""
        last = lane.last
        for at, text in enumerate(parcel.ids or ()):
            reason = ""
            try:
                last, before = _own_id(text or b"*", last), last
                if last <= before:
                    reason = f"the ID {_text(text)} is equal or smaller than the target stream's last one, {before}."
            except ValueError as problem:
                reason = f"{problem}."
            if reason:
                row, address = int(parcel.rows[at]), self._connection.address
                fail("ROW_REFUSED", row=row, address=address, reason=reason)

    def _refused(self, text: str, command: Command) -> None:
        """Nothing was executed: learn from the refusal what to do, or fail."""
        if not is_transient(redis.ResponseError(text)):
            fail("SERVER_REFUSED", address=self._connection.address, command=command[0], reason=text)
        if text.startswith("MOVED "):
            self._connection.topology.learn_moved(text)
            self.watched.clear()
        elif not text.startswith(("TRYAGAIN", "ASK ")):
            self._lost()

    def _settle(self) -> bool:
        """Whether what is under way is in the streams; if not it is sent again."""
        if not self._sent:
            if not self._send():
                return False
            if not self._sent:
                self._parcels = []
                return True
        assert self._link is not None
        link, sent = self._link, self._sent
        self._sent = []
        buffer, stop = link.receive(self._word)
        if self._asking:
            buffer, stop = buffer[5:], stop - 5
        found = transaction_result(buffer, stop, sum(len(parcel) for _, parcel, _ in sent), self._others)
        if found.refused:
            self._mark(link, sent, found)
        if not found.done:
            # A conflict says that somebody has advanced a fence: that is a task's twin, or this very transaction's
            # own first try. The fences will tell.
            if found.refusal:
                self._refused(found.refusal, ("XADD",))
            self.watched.clear()
            return False
        for lane, parcel, state in sent:
            lane.done(parcel.commands, len(parcel))
            lane.state = state
        self._parcels = []
        if self._looks and not any(isinstance(reply, redis.ResponseError) for reply in found.tail):
            for lane, values in zip(self._looks, found.tail[1:], strict=True):
                lane.look(values)
                self.watched.add(lane.key)
        return True

    def _mark(self, link: Link, sent: list[tuple[Lane, Parcel, State]], found: TransactionResult) -> None:
        """A row was refused although everything was looked at: make the fence remember it, and fail."""
        first = 0
        problem: tuple[int, str] | None = None
        marks: list[Command] = []
        for lane, parcel, _ in sent:
            for at in range(len(parcel)):
                if first + at in found.refused:
                    row, reason = int(parcel.rows[at]), found.refused[first + at]
                    marks.append(("HSET", lane.key, "refused", f"{row} {reason}"))
                    problem = problem or (row, reason)
                    break
            first += len(parcel)
        if problem is None:
            reason = next(iter(found.refused.values()))
            fail("SERVER_REFUSED", address=self._connection.address, command="XTRIM", reason=reason)
        link.pipeline(marks)
        fail("ROW_REFUSED", row=problem[0], address=self._connection.address, reason=problem[1])

    def replicate(self) -> None:
        """Wait until the replicas have what was written. The write before makes WAIT cover what others wrote."""
        self._with_patience(self._replicated)

    def _replicated(self) -> bool:
        options = self._sender.options
        lanes = [lane for lane in self._sender._lanes.values() if self._owns(lane)]
        link = self._link
        if link is None or not self._connection.keeps(link):
            link = self._connection.link(lanes[0].stream)
            # It may be another server, which has taken over without what the one before had confirmed.
            fences = link.pipeline([("HMGET", lane.key, *FIELDS) for lane in lanes])
            for lane, values in zip(lanes, fences, strict=True):
                if isinstance(values, redis.ResponseError):
                    self._refused(str(values), ("HMGET",))
                    return False
                lane.look(values)
        self._link = link
        wait: Command = ("WAIT", options.wait_replicas, options.wait_timeout)
        touch: Command = ("HSET", lanes[0].key, "chunk", lanes[0].state.chunk)
        touched, replicas = link.pipeline([touch, wait])
        for reply in (touched, replicas):
            if isinstance(reply, redis.ResponseError):
                self._refused(str(reply), wait)
                return False
        if replicas < options.wait_replicas:
            fail("NOT_REPLICATED", wanted=options.wait_replicas, found=replicas, address=self._connection.address)
        return True

    def _owns(self, lane: Lane) -> bool:
        return self._sender._couriers.get(self._slot(lane)) is self

    def _slot(self, lane: Lane) -> int:
        return slot_of(lane.stream) if self._connection.topology.is_cluster else 0


def _own_id(text: bytes, last: StreamId) -> StreamId:
    """The ID an entry gets whose ID is said to be `text` behind `last`."""
    ms, dash, seq = text.partition(b"-")
    if dash and seq == b"*":
        begun = StreamId.parse(ms).ms
        return StreamId(begun, last.seq + 1) if begun == last.ms else StreamId(begun, 0)
    return StreamId.parse(text)


def _text(key: bytes | None) -> str:
    return (key or b"").decode("utf-8", "backslashreplace")
