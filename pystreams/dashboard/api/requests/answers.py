"""Streamed responses: chunks are sent until they end or the browser disconnects.

The HTTP server (`app.run.Watch`) disconnects a browser if its unread data does not become less and the number of sent
chunks (`SENT`) does not grow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

#: Key in a request's scope for the number of sent chunks.
SENT = "pystreams.sent"


class Streamed(Response):
    """A response that is sent until the browser disconnects or the chunks end. Afterwards `left` is called.

    Sent chunks are counted: while a browser reads, new chunks replace the data that it has read, so the amount of
    unread data does not show whether the browser reads.
    """

    def __init__(
        self, chunks: AsyncIterator[bytes], left: Callable[[], None], headers: Sequence[tuple[bytes, bytes]]
    ) -> None:
        super().__init__(None, 200)
        self._chunks, self._left, self._head = chunks, left, list(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.ensure_future(disconnected(receive))
        sending = asyncio.ensure_future(self._send(scope, send))
        try:
            await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (leaving, sending):
                task.cancel()
            await asyncio.gather(leaving, sending, return_exceptions=True)
            self._left()

    async def _send(self, scope: Scope, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._head})
        sent = 0
        async for chunk in self._chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            sent += 1
            scope[SENT] = sent
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def disconnected(receive: Receive) -> None:
    """Wait until the browser disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
