"""Directories to read from: local paths, and URLs that fsspec supports (s3://, gs://, abfs://, hdfs://, ...).

fsspec needs a package for each store, such as `s3fs`; an error of fsspec names a missing package. Credentials come from
the environment variables and files that these packages read.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from pystreams.errors import fail

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")


class Directory(Protocol):
    """A directory. `part`: path of a file or subdirectory relative to this directory, with `/`."""

    def names(self, part: str) -> list[str]:
        """Return the names of the files in a subdirectory, or an empty list if it does not exist."""
        ...

    def text(self, part: str) -> str | None:
        """Return the text of a file; None if it does not exist."""
        ...

    def shown(self, part: str = "") -> str:
        """Return the path of a file or subdirectory, by default of this directory, for messages."""
        ...


def at(text: str) -> Directory:
    """Return the directory at a path or a URL. Raises PACKAGE_MISSING if a URL is given and fsspec is not installed."""
    if not _URL.match(text):
        return Local(Path(text))
    parts = urlsplit(text)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Local(Path(unquote(parts.path)))
    if find_spec("fsspec") is None:
        fail("PACKAGE_MISSING", what=f"{parts.scheme}://", package="fsspec", extra="files")
    return Remote(text)


class Local:
    """A directory on this machine."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def names(self, part: str) -> list[str]:
        directory = self._directory / part
        return [each.name for each in directory.iterdir()] if directory.is_dir() else []

    def text(self, part: str) -> str | None:
        try:
            return (self._directory / part).read_text(errors="replace")
        except FileNotFoundError:
            return None

    def shown(self, part: str = "") -> str:
        return str(self._directory / part)


class Remote:
    """A directory in a store. Raises FILE_UNUSABLE if the store refuses an operation."""

    def __init__(self, url: str) -> None:
        import fsspec  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra

        self._url = url.rstrip("/")
        self._store: Any
        self._store, self._path = self._call(fsspec.url_to_fs, self._url)

    def names(self, part: str) -> list[str]:
        path = f"{self._path}/{part}"
        try:
            found = self._call(self._store.ls, path, detail=False)
        except FileNotFoundError:
            return []
        return [str(each).rstrip("/").rpartition("/")[2] for each in found]

    def text(self, part: str) -> str | None:
        try:
            data: bytes = self._call(self._store.cat_file, f"{self._path}/{part}")
        except FileNotFoundError:
            return None
        return data.decode("utf-8", "replace")

    def shown(self, part: str = "") -> str:
        # Omit user, password and query of the URL.
        parts = urlsplit(self._url)
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
        return f"{shown}/{part}" if part else shown

    def _call(self, question: Any, *arguments: Any, **named: Any) -> Any:
        """Return the result of a call to the store. Any error except FileNotFoundError becomes FILE_UNUSABLE, because
        each store has its own errors.
        """
        try:
            return question(*arguments, **named)
        except FileNotFoundError:
            raise
        except Exception as cause:  # noqa: BLE001
            reason = (str(cause) or type(cause).__name__).replace(self._url, self.shown()).rstrip(".")
            return fail("FILE_UNUSABLE", file=self.shown(), reason=reason)
