"""Server-sent events: news for all browsers after each sample, and new entries of a stream.

The number of listeners is limited.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from pystreams.dashboard.api import shapes
from pystreams.dashboard.api.overview import news
from pystreams.dashboard.api.requests.answers import Streamed
from pystreams.dashboard.api.requests.parameters import Asked
from pystreams.dashboard.api.streams import condition
from pystreams.dashboard.sampling.sampler import Sampler
from pystreams.streams import inventory, tails
from pystreams.streams.paged_calls import ask
from pystreams.values import conditions
from pystreams.values.fields import Entry
from streamwire.stream_id import StreamId

MOST_LISTENERS, MOST_TAILS = 200, 40  # maximum number of pages that receive samples, and that follow a stream
_COUNT = 200  # maximum number of entries read per step
_SHOWN = 100  # maximum number of entries sent per step; older entries are skipped
_PAUSE = 0.4  # seconds between two steps, unless more entries are waiting
_HEARTBEAT = 15.0  # seconds without an event, after which a comment keeps the connection alive


def event(kind: str, document: dict[str, Any]) -> bytes:
    """Return a server-sent event as bytes."""
    return f"event: {kind}\ndata: {json.dumps(document, separators=(',', ':'))}\n\n".encode()


class EventStream(Streamed):
    """Events that are sent until the browser disconnects or the events end. Then `left` is called."""

    def __init__(self, events: AsyncIterator[bytes], left: Callable[[], None]) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        super().__init__(events, left, headers)


class News:
    """Sends each sample to all listeners. A sample is encoded once. Slow listeners miss some samples."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        self._words: dict[bool, tuple[int, bytes]] = {}
        self.closing = False

    def start(self) -> None:
        """Start to listen to the sampler, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._sampler.on_sample = self._on_sample

    def stop(self) -> None:
        """Release all listeners."""
        self.closing = True
        self._wake()

    def _on_sample(self) -> None:
        """Wake the listeners. Called in the sampler's thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _now(self, whole: bool) -> bytes:
        state = self._sampler.state
        number, words = self._words.get(whole, (-1, b""))
        if number != state.number:
            words = event("sample", news(state, whole=whole))
            self._words[whole] = state.number, words
        return words

    async def events(self, valid: Callable[[], bool], *, whole: bool) -> AsyncIterator[bytes]:
        """Yield an event per sample, starting with the last sample, until the session ends. `whole`: see `news`."""
        sent = b""
        while valid() and not self.closing:
            changed = self._changed
            words = self._now(whole)
            yield words if words is not sent else b": still here\n\n"
            sent = words
            try:
                await asyncio.wait_for(changed.wait(), _HEARTBEAT)
            except TimeoutError:
                continue


class Tail:
    """New entries of a stream that match a condition. `read_new` is called in a thread."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._name = asked.key("stream")
        self._holds: conditions.Condition | None = condition(asked.text("where"))
        self._after = asked.id("after")
        self._reader = asked.reader(self._name)

    def read_new(self) -> tuple[dict[str, Any] | None, bool]:
        """Return a document with the new entries (None if there are none), and whether more may already be waiting.

        If the request has no `after`, the document of the first call has only the end of the stream.
        """
        with self._asked.access.lend() as connection:
            if self._after is None:
                self._after = inventory.need(connection, self._name).generated
                return {"rows": [], "after": str(self._after), "skipped": 0}, False
            reply = ask(connection, "XREAD", "COUNT", _COUNT, "STREAMS", self._name, str(self._after))
        found = [entry for _, entry in tails.listed(reply)]
        if not found:
            return None, False
        self._after = StreamId.parse(found[-1][0])
        matches: list[Entry] = []
        for each in found:
            reader = self._reader.of(each)
            words = reader.words(each[1])
            if self._holds is None or self._holds(reader.members(words)):
                matches.append((each[0], reader.texts(words)))
        rows = [shapes.entry(each) for each in matches[-_SHOWN:]]
        document = {"rows": rows, "after": str(self._after), "skipped": len(matches) - len(rows)}
        return document, len(found) == _COUNT


async def tail(
    read_new: Callable[[], Any], first: dict[str, Any], valid: Callable[[], bool], failed: Callable[[Exception], Any]
) -> AsyncIterator[bytes]:
    """Yield the results of repeated `read_new` calls as events, until a call fails or the session ends.

    `failed` describes a failure.
    """
    yield event("entries", first)
    quiet = 0.0
    while valid():
        try:
            document, more = await read_new()
        except Exception as failure:  # noqa: BLE001 - every failure is sent to the browser
            yield event("failure", failed(failure))
            return
        if document is not None:
            quiet = 0.0
            yield event("entries", document)
        elif quiet >= _HEARTBEAT:
            quiet = 0.0
            yield b": still here\n\n"
        if not more:
            await asyncio.sleep(_PAUSE)
            quiet += _PAUSE
