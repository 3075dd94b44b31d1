"""Writing at least once: XADDs are sent in chunks and every reply is read. No records are left on the server.

A server that has PS.ADD gets one PS.ADD per chunk and stream instead of XADDs if the rows consist of columns without
nulls (`encoding.as_columns`).

A chunk is encoded while the server works on the previous chunk. At most two chunks are unanswered. If the connection
breaks, the rows of these chunks are sent again, so some rows may be in the stream twice. If Spark repeats a task, the
task's rows may also be in the stream twice. If the server refuses a row, the task fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from spark_streams.config.write import WriteOptions
from spark_streams.errors import fail
from spark_streams.write import encoding
from spark_streams.write.encoding import OWN_IDS, EncodedRows, trim_commands
from streamclient.capabilities import is_refused
from streamclient.connection import BROKEN, Connection, Link
from streamclient.errors import ResponseError
from streamclient.refusals import is_transient, refused, row_refused
from streamclient.replies import end_of_ids, pack, parse
from streamclient.routing import UNREACHABLE

_AHEAD = 2  # number of unanswered chunks at which the replies to the oldest chunk are read


@dataclass
class _Sent:
    """Rows in flight, the link to which they were sent (None: not sent yet), and the token of the replies."""

    rows: EncodedRows
    link: Link | None = None
    token: bytes = b""
    by_columns: bool = False


class AtLeastOnceSender:
    """Sends a task's rows.

    Raises ROW_REFUSED, SERVER_REFUSED, WRITE_CONTENDED and NOT_REPLICATED. With `overwrite`, `floors` has the last ID
    of each stream before this task wrote to it.
    """

    def __init__(self, connection: Connection, options: WriteOptions, overwrite: bool = False) -> None:
        self.floors: dict[bytes, str] = {}
        self._connection = connection
        self._options = options
        self._overwrite = overwrite
        self._chunks: list[list[_Sent]] = []
        self._links: set[Link] = set()  # links on which rows were confirmed
        self._columns = encoding.accepts_columns(connection)  # whether rows may be sent as columns

    def submit(self, chunk: Sequence[EncodedRows]) -> None:
        """Send a chunk, and then read the replies to the previous chunk."""
        for rows in chunk:
            if self._overwrite and rows.stream not in self.floors:
                self._settle_all()
                self.floors[rows.stream] = self._last_id(rows.stream)
        if not self._columns and any(sent.by_columns for chunk in self._chunks for sent in chunk):
            self._settle_all()  # rows in flight would also be refused as columns, but must precede these rows
        sending = [_Sent(rows) for rows in chunk]
        for sent in sending:
            try:
                self._send(sent)
            except UNREACHABLE as cause:
                self._lost(sent)
                self._connection.raise_permanent(cause)
        self._chunks.append(sending)
        while len(self._chunks) >= _AHEAD:
            self._settle(self._chunks.pop(0))

    def finish(self) -> None:
        """Read all outstanding replies, and wait for the replicas if the options require it."""
        self._settle_all()
        if self._options.wait_replicas:
            self._wait_for_replicas()

    def _settle_all(self) -> None:
        while self._chunks:
            self._settle(self._chunks.pop(0))

    def _last_id(self, stream: bytes) -> str:
        (info,) = self._connection.pipeline([("XINFO", "STREAM", stream)])
        if _is_error(info):
            if "no such key" in str(info):
                return "0-0"
            raise refused(self._connection.address, "XINFO", info)
        return str(info[info.index(b"last-generated-id") + 1].decode())

    def _send(self, sent: _Sent) -> None:
        trims = [pack(*command) for command in trim_commands(sent.rows.stream, self._options)]
        link = self._connection.link(sent.rows.stream)
        sent.link = link
        sent.by_columns = self._columns and encoding.are_columns(sent.rows)
        rows = encoding.as_columns(sent.rows) if sent.by_columns else [sent.rows.commands]
        sent.token = link.send_raw(*rows, *trims)

    def _lost(self, sent: _Sent, _: BaseException | None = None) -> None:
        self._connection.drop(sent.link)
        sent.link = None

    def _settle(self, chunk: Sequence[_Sent]) -> None:
        """Wait until a chunk's rows are in their streams; send them again if necessary."""
        for sent in chunk:
            if not self._connection.retry(partial(self._attempt, sent), partial(self._lost, sent)):
                fail("WRITE_CONTENDED", address=self._connection.address)

    def _attempt(self, sent: _Sent) -> bool | None:
        if sent.link is None:
            self._send(sent)
        return True if self._confirmed(sent) else None

    def _confirmed(self, sent: _Sent) -> bool:
        """Return whether all rows are in the stream. If some were refused temporarily, reduce `sent` to those rows."""
        assert sent.link is not None
        link, rows = sent.link, sent.rows
        buffer, stop = link.receive(sent.token)
        self._links.add(link)
        end = -1 if sent.by_columns else end_of_ids(buffer, 0, stop, len(rows))
        if end >= 0 and (end == stop or not any(map(_is_error, parse(bytes(buffer[end:stop]))))):
            return True
        replies = parse(bytes(buffer[:stop]))
        if sent.by_columns:
            if _is_error(replies[0]) and is_refused(str(replies[0])):
                self._columns, sent.link = False, None
                return False
            replies[:1] = replies[:1] * len(rows)  # one reply for all rows
        left: list[int] = []
        refusal = ""
        for at, reply in enumerate(replies[: len(rows)]):
            if is_transient(reply):
                left.append(at)
                refusal = str(reply)
            elif reply is None or _is_error(reply):
                name = rows.stream.decode("utf-8", "backslashreplace")
                reason = str(reply) if reply is not None else f"the stream {name} does not exist."
                if rows.ids is not None and ("equal or smaller" in reason or "Invalid stream ID" in reason):
                    reason += f". {OWN_IDS}"
                raise row_refused(self._connection.address, int(rows.rows[at]), reason)
        for reply in replies[len(rows) :]:
            if _is_error(reply) and not is_transient(reply):
                raise refused(self._connection.address, "XTRIM", reply)
        if not left:
            return True
        sent.link, sent.rows = None, rows.pick(left)
        return self._redirected(sent, link, refusal)

    def _redirected(self, sent: _Sent, link: Link, refusal: str) -> bool:
        """Update the routing after a temporary refusal, and send the rows again if the refusal was ASK.

        Returns whether all rows are written.
        """
        rows = sent.rows
        if refusal.startswith("MOVED "):
            self._connection.topology.learn_moved(refusal)
        elif refusal.startswith("ASK "):
            asking = pack("ASKING")
            commands = [asking + bytes(rows.commands[a:b]) for a, b in pairwise(rows.bounds.tolist())]
            requested = self._connection.link_for_ask(refusal)
            buffer, stop = requested.receive(requested.send_raw(*commands))
            replies = parse(bytes(buffer[:stop]))[1::2]
            sent.rows = rows.pick([at for at, reply in enumerate(replies) if _is_error(reply)])
            return not len(sent.rows)
        elif not refusal.startswith("TRYAGAIN"):
            try:
                # Later chunks may be in flight to the same server. If their replies were not read, they would be sent
                # twice.
                link.receive_due()
            finally:
                self._connection.drop(link)
        return False

    def _wait_for_replicas(self) -> None:
        options, address = self._options, self._connection.address
        for link in self._links:
            try:
                (found,) = link.pipeline([("WAIT", options.wait_replicas, options.wait_timeout)])
            except BROKEN:
                # WAIT covers only the writes of its own connection, and a new connection may reach another master.
                self._connection.drop(link)
                fail("NOT_REPLICATED", wanted=options.wait_replicas, found="An unknown number of", address=address)
            if _is_error(found):
                raise refused(address, "WAIT", found)
            if found < options.wait_replicas:
                fail("NOT_REPLICATED", wanted=options.wait_replicas, found=found, address=address)


def _is_error(reply: object) -> bool:
    return isinstance(reply, ResponseError)
