"""Export of a range of a stream as a file for download, in the formats of `pystreams export`.

The file is written page by page in a thread, within limits, in a temporary folder. The folder is removed before the
file is sent. The open file then has no name, so the system frees its space when it is closed, even after a crash.

A response is sent until its chunks end or the browser disconnects. The HTTP server (`app.run.Watch`) disconnects a
browser if its unread data does not become less and the number of sent chunks (`SENT`) does not grow.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pystreams.dashboard.requests import Asked
from pystreams.errors import fail
from pystreams.files import archives
from pystreams.streams import entries, inventory, paged_calls
from pystreams.values import names, times
from pystreams.values.fields import columns_of
from streamclient.connection import Connection
from streamwire.stream_id import StreamId

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


MOST_EXPORTS = 2  # maximum number of concurrent exports from a server, in all sessions
MOST_ENTRIES = 1_000_000  # maximum number of exported entries
MOST_BYTES = 256 << 20  # maximum size of the file, and of the entries' fields
_MOST_COLUMNS = 500  # maximum number of columns in CSV and Parquet; further fields are in _other
_CHUNK = 1 << 16  # maximum bytes read from the file and sent at a time
_NAME_CHARACTERS = 60  # maximum number of characters of up to four bytes each: file systems allow 255 bytes
_TYPES = {
    "parquet": b"application/vnd.apache.parquet",
    "jsonl": b"application/x-ndjson",
    "csv": b"text/csv; charset=utf-8",
}


class NotExportedError(Exception):
    """The export failed. `status`: HTTP status."""

    def __init__(self, status: int, condition: str, message: str) -> None:
        super().__init__(message)
        self.status, self.condition = status, condition


class Export:
    """One export of a stream, written to a temporary file and then sent.

    `wanted`: function called for each page, in the writing thread; returns False to cancel the export.
    """

    def __init__(self, asked: Asked, wanted: Callable[[], bool]) -> None:
        self._access, self._wanted = asked.access, wanted
        self._stream = asked.key("stream")
        self._reader = asked.reader(self._stream)
        self._form = asked.choice("format", _TYPES, "parquet")
        self._texts = asked.text("from").strip() or "start", asked.text("before").strip() or "end"
        self._begin, self._end = (
            times.position(text, name) for text, name in zip(self._texts, ("from", "before"), strict=True)
        )
        self._name = file_name(self._stream, self._form)
        self._file: BinaryIO | None = None
        self._size = 0
        self._closed = False

    def write(self) -> None:
        """Write the file. Raises NotExportedError, FILE_UNUSABLE and refusals of the server. Errors leave no file."""
        with archives.written(Path(tempfile.gettempdir())):
            folder = tempfile.TemporaryDirectory(prefix="pystreams-export-", ignore_cleanup_errors=True)
        with folder as directory:
            path = Path(directory) / f"export.{self._form}"
            with self._access.lend() as connection:
                self._fill(path, connection)
            with archives.written(path):
                self._size = path.stat().st_size
                self._check(0, self._size)
                self._file = path.open("rb")
        if self._closed:
            self._file.close()

    def close(self) -> None:
        """Stop writing at the next page, or close the finished file."""
        self._closed = True
        if self._file is not None:
            self._file.close()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the content of the finished file in chunks."""
        assert self._file is not None
        while chunk := await anyio.to_thread.run_sync(self._file.read, _CHUNK):
            yield chunk

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the HTTP headers that describe the file."""
        plain = re.sub(r"[^\x21-\x7e]", "_", self._name)
        disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(self._name, safe='')}"
        return [
            (b"content-type", _TYPES[self._form]),
            (b"content-length", b"%d" % self._size),
            (b"content-disposition", disposition.encode("ascii")),
            (b"cache-control", b"no-store"),
        ]

    def _fill(self, path: Path, connection: Connection) -> None:
        after, upto = self._range(connection)
        archive: archives.Archive | None = None
        count = size = 0
        whole = False
        try:
            for page in entries.pages(connection, self._stream, after, upto, most=MOST_ENTRIES + 1):
                count += len(page)
                size += sum(len(word) for _, words in page for word in words)
                self._check(count, size)
                page = list(map(self._reader.entry, page))
                with archives.written(path):
                    if archive is None:
                        columns = columns_of(page)[:_MOST_COLUMNS]
                        archive = archives.open_archive(path, self._form, columns, resume=False, one_file=True)
                    archive.write(page)
                    size = max(size, path.stat().st_size if path.exists() else 0)
            if archive is None:
                raise NotExportedError(404, "NO_ENTRIES", "The stream has no entries in this range.")
            with archives.written(path):
                archive.close(whole=True)
            whole = True
        finally:
            if archive is not None and not whole:
                with suppress(OSError):  # report the original error instead
                    archive.close(whole=False)

    def _range(self, connection: Connection) -> tuple[StreamId, StreamId]:
        """Return the requested range (after, upto]. A range that is known to be too large is refused immediately."""
        found = inventory.need(connection, self._stream)
        after, upto = entries.between(connection, found, self._begin, self._end, paged_calls.now_ms(connection))
        ids = self._begin.id, self._end.id
        if ids[0] is not None and ids[1] is not None and ids[0] >= ids[1]:
            fail("INVALID_VALUE", name="before", value=self._texts[1], expected="it must be after 'from'")
        if upto >= found.last_id:
            self._check(found.exact_backlog(after) or 0, 0)
        return after, upto

    def _check(self, count: int, size: int) -> None:
        """Raise an error to stop the export if the file is too large or the export was cancelled."""
        if self._closed or not self._wanted():
            raise NotExportedError(503, "STOPPED", "The export was stopped.")
        if count > MOST_ENTRIES or size > MOST_BYTES:
            most = f"{MOST_ENTRIES:,} entries or {MOST_BYTES >> 20} MiB"
            message = f"The range exceeds {most}, the limit for browsers. Use the command line: {self.command()}"
            raise NotExportedError(413, "TOO_LARGE", message)

    def command(self) -> str:
        """Return a command line that exports the same range."""
        flags = [
            f"--{name}={shlex.quote(text)}"
            for name, text, default in zip(("from", "before"), self._texts, ("start", "end"), strict=True)
            if text != default
        ]
        end = ["--"] if self._stream.startswith(b"-") else []
        return " ".join(["pystreams export", *flags, *end, _word(self._stream), shlex.quote(self._name)])


def file_name(stream: bytes, form: str) -> str:
    """Return the file name of an export: the stream's name without characters unsafe in headers or file systems."""
    text = re.sub(r"[^\w.-]+", "_", stream.decode("utf-8", "replace"))[:_NAME_CHARACTERS].strip("._-")
    return f"{text or 'stream'}.{form}"


def _word(value: bytes) -> str:
    """Return a name, which may have any bytes, quoted for a shell."""
    text = names.shown(value)
    if text.encode() == value:
        return shlex.quote(text)
    plain = set(range(32, 127)) - set(b"'\\")
    return "$'" + "".join(chr(byte) if byte in plain else f"\\x{byte:02x}" for byte in value) + "'"
