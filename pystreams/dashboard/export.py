"""Export of a range of a stream as a file for download, in the formats of `pystreams export`.

The file is written page by page in a thread, within limits, in a temporary folder. The folder is removed before the
file is sent. The open file then has no name, so the system frees its space when it is closed, even after a crash.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import anyio
from starlette.responses import Response, StreamingResponse

from pystreams.dashboard.requests import Asked
from pystreams.errors import fail
from pystreams.files import archives
from pystreams.streams import entries, inventory, paged_calls
from pystreams.values import times
from pystreams.values.fields import columns_of
from streamclient.connection import Connection
from streamwire.stream_id import StreamId

MOST_EXPORTS = 2  # maximum number of files that are written at a time from a server, in all sessions
MOST_ENTRIES = 1_000_000  # maximum number of exported entries
MOST_BYTES = 256 << 20  # maximum size of the file, and of the entries' fields
_MOST_COLUMNS = 500  # maximum number of columns in CSV and Parquet; further fields are in _other
_CHUNK = 1 << 16  # maximum bytes read from the file and sent at a time
_NAME_CHARACTERS = 60  # maximum number of characters of up to four bytes each: file systems allow 255 bytes
_TYPES = {
    "parquet": "application/vnd.apache.parquet",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
}


class NotExportedError(Exception):
    """The export failed. `status`: HTTP status."""

    def __init__(self, status: int, condition: str, message: str) -> None:
        super().__init__(message)
        self.status, self.condition = status, condition


class Export:
    """One export of a stream, which `write` writes to a temporary file.

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

    def write(self) -> Response:
        """Write the file, and return the response that sends it.

        Raises NotExportedError, FILE_UNUSABLE and refusals of the server. Errors leave no file.
        """
        with archives.written(Path(tempfile.gettempdir())):
            folder = tempfile.TemporaryDirectory(prefix="pystreams-export-", ignore_cleanup_errors=True)
        with folder as directory:
            path = Path(directory) / f"export.{self._form}"
            with self._access.lend() as connection:
                self._fill(path, connection)
            with archives.written(path):
                size = path.stat().st_size
                self._check(0, size)
                file = path.open("rb")
        return StreamingResponse(_chunks(file), headers=self._headers(size), media_type=_TYPES[self._form])

    def _headers(self, size: int) -> dict[str, str]:
        name = file_name(self._stream, self._form)
        plain = re.sub(r"[^\x21-\x7e]", "_", name)
        disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
        return {"content-length": str(size), "content-disposition": disposition}

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
        if not self._wanted():
            raise NotExportedError(503, "STOPPED", "The export was stopped.")
        if count > MOST_ENTRIES or size > MOST_BYTES:
            most = f"{MOST_ENTRIES:,} entries or {MOST_BYTES >> 20} MiB"
            message = f"The range exceeds {most}, the limit for browsers. Use the command line: pystreams export."
            raise NotExportedError(413, "TOO_LARGE", message)


async def _chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the content of a file, and close it."""
    with file:
        while chunk := await anyio.to_thread.run_sync(file.read, _CHUNK):
            yield chunk


def file_name(stream: bytes, form: str) -> str:
    """Return the file name of an export: the stream's name without characters unsafe in headers or file systems."""
    text = re.sub(r"[^\w.-]+", "_", stream.decode("utf-8", "replace"))[:_NAME_CHARACTERS].strip("._-")
    return f"{text or 'stream'}.{form}"
