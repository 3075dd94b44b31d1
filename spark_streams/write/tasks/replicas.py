"""Waiting until replicas have the written rows."""

from __future__ import annotations

from collections.abc import Sequence

from spark_streams.config.write import WriteOptions
from spark_streams.errors import fail
from spark_streams.write.protocol import StreamFence
from spark_streams.write.records import FENCE_FIELDS
from streamclient.connection import Command, Connection, Link
from streamclient.errors import ResponseError


class ReplicaWait:
    """Waits until replicas have the rows of these fences, which are all in one slot.

    `link`: the link on which the rows were written.
    """

    def __init__(
        self, connection: Connection, fences: Sequence[StreamFence], options: WriteOptions, link: Link | None
    ) -> None:
        self._connection = connection
        self._fences = fences
        self._options = options
        self._link = link

    def wait(self) -> None:
        """Wait until enough replicas have the rows.

        Raises NOT_REPLICATED, WRITE_CONTENDED, and the errors of fences.
        """
        if not self._connection.retry(lambda: self._attempt() or None, self._lost):
            fail("WRITE_CONTENDED", address=self._connection.address)

    def _lost(self) -> None:
        self._connection.drop(self._link)
        self._link = None

    def _attempt(self) -> bool:
        options, fences = self._options, self._fences
        link = self._link
        if link is None or not self._connection.keeps(link):
            link = self._connection.link(fences[0].stream)
            # A new link may reach a server that took over without the writes that the old server acknowledged. The
            # fences show whether it has them.
            replies = link.pipeline([("HMGET", fence.key, *FENCE_FIELDS) for fence in fences])
            for fence, values in zip(fences, replies, strict=True):
                if isinstance(values, ResponseError):
                    return self._refused(values, "HMGET", link)
                fence.update(values)
        self._link = link
        # WAIT covers only writes of its own connection. Another write on this connection makes WAIT cover all earlier
        # writes to the server.
        touch: Command = ("HSET", fences[0].key, "chunk", fences[0].state.chunk)
        touched, replicas = link.pipeline([touch, ("WAIT", options.wait_replicas, options.wait_timeout)])
        for reply in (touched, replicas):
            if isinstance(reply, ResponseError):
                return self._refused(reply, "WAIT", link)
        if replicas < options.wait_replicas:
            fail("NOT_REPLICATED", wanted=options.wait_replicas, found=replicas, address=self._connection.address)
        return True

    def _refused(self, reply: ResponseError, command: str, link: Link) -> bool:
        self._connection.learn_or_raise(reply, command, link)
        return False
