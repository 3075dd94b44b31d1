"""Checkpoints of Spark's streaming queries: the batches that a query has planned and committed.

This module reads `metadata`, `offsets/` and `commits/` of a local or remote checkpoint directory. It uses only offsets
of the source pystreams, in the format of `spark_streams.read.query.offsets`. It writes nothing.

A directory is a path, or a URL that fsspec supports (s3://, gs://, abfs://, hdfs://, ...). fsspec needs a package for
each store, such as `s3fs`; an error of fsspec names a missing package. Credentials come from the environment variables
and files that these packages read.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pystreams.errors import fail
from streamwire.stream_id import StreamId

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")


class _Disk:
    """The file system of this machine, with the methods of a store of fsspec."""

    def ls(self, path: str, *, detail: bool) -> list[str]:
        del detail
        return os.listdir(path)  # noqa: PTH208 - names, as a store returns them

    def cat_file(self, path: str) -> bytes:
        return Path(path).read_bytes()


class Directory:
    """A directory at a path or a URL. Raises FILE_UNUSABLE if the store refuses an operation."""

    def __init__(self, text: str) -> None:
        parts = urlsplit(text)
        self._store: Any = _Disk()
        self._url = self._path = text.rstrip("/") or text
        self._shown = self._path
        if parts.scheme == "file" and parts.netloc in ("", "localhost"):
            self._path = self._shown = unquote(parts.path)
        elif _URL.match(text):
            import fsspec  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra

            # Omit user, password and query of the URL.
            self._shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl().rstrip("/")
            self._store, self._path = self._call(fsspec.url_to_fs, self._url)

    def names(self, part: str) -> list[str]:
        """Return the names of the files in a subdirectory, or an empty list if it does not exist."""
        try:
            found = self._call(self._store.ls, f"{self._path}/{part}", detail=False)
        except FileNotFoundError:
            return []
        return [str(each).rstrip("/").rpartition("/")[2] for each in found]

    def text(self, part: str) -> str | None:
        """Return the text of a file; None if it does not exist. `part`: its path relative to this directory."""
        try:
            data: bytes = self._call(self._store.cat_file, f"{self._path}/{part}")
        except FileNotFoundError:
            return None
        return data.decode("utf-8", "replace")

    def shown(self, part: str = "") -> str:
        """Return the path of a file, by default of this directory, for messages."""
        return f"{self._shown}/{part}" if part else self._shown

    def _call(self, question: Any, *arguments: Any, **named: Any) -> Any:
        """Return the result of a call to the store. Any error except FileNotFoundError becomes FILE_UNUSABLE, because
        each store has its own errors.
        """
        try:
            return question(*arguments, **named)
        except FileNotFoundError:
            raise
        except Exception as cause:  # noqa: BLE001
            reason = (str(cause) or type(cause).__name__).replace(self._url, self._shown).rstrip(".")
            return fail("FILE_UNUSABLE", file=self._shown, reason=reason)


@dataclass(frozen=True)
class Source:
    """One source of a query. `name`: its number in the query, or the name that `name()` gave it. `planned`: offsets of
    the last started batch. `committed`: offsets of the last finished batch.

    `added`: number of entries ever added up to the planned offset, by stream. It lacks streams whose number is unknown.
    """

    name: int | str
    consume: str
    group: str | None
    planned: Mapping[str, StreamId]
    committed: Mapping[str, StreamId]
    added: Mapping[str, int]


@dataclass(frozen=True)
class Checkpoint:
    """A query's checkpoint. `batch`: number of the last started batch. `finished`: that of the last committed batch."""

    query: str
    batch: int
    finished: int | None
    sources: tuple[Source, ...]


def read(directory: Directory) -> Checkpoint:
    """Return the checkpoint in a directory. Raises NO_CHECKPOINT and CHECKPOINT_MALFORMED."""
    batches, commits = _numbers(directory, "offsets"), _numbers(directory, "commits")
    if not batches:
        fail("NO_CHECKPOINT", directory=directory.shown())
    last = batches[-1]
    finished = next((number for number in reversed(commits) if number in batches), None)
    planned = _offsets(directory, last)
    committed = {} if finished is None else _offsets(directory, finished)
    sources = [_source(directory, name, form, committed.get(name)) for name, form in planned.items()]
    if not sources:
        fail("CHECKPOINT_MALFORMED", file=directory.shown(), reason="none of its sources has the format pystreams")
    return Checkpoint(_query(directory), last, commits[-1] if commits else None, tuple(sources))


def _numbers(directory: Directory, part: str) -> list[int]:
    return sorted(int(name) for name in directory.names(part) if name.isdecimal())


def _query(directory: Directory) -> str:
    try:
        return str(json.loads(directory.text("metadata") or "")["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _offsets(directory: Directory, batch: int) -> dict[int | str, dict[str, Any]]:
    """Return a batch's offsets of the sources with the format pystreams, by the source's number or name.

    The file has a version line, a line with settings, and one line per source. In version 2, which Spark writes for
    named sources, such a line begins with the source's name and a colon.
    """
    part = f"offsets/{batch}"
    lines = (directory.text(part) or "").splitlines()
    version = lines[0] if lines else ""
    if version not in ("v1", "v2"):
        fail(
            "CHECKPOINT_MALFORMED",
            file=directory.shown(part),
            reason=f"its version is '{version}', not v1 or v2",
        )
    found: dict[int | str, dict[str, Any]] = {}
    for number, line in enumerate(lines[2:]):
        name, _, offset = line.partition(":") if version == "v2" else (number, "", line)
        try:
            form = json.loads(offset)
        except ValueError:
            continue  # "-" means that the source has no offset; the format of other sources may not be JSON
        if isinstance(form, dict) and isinstance(form.get("streams"), dict) and "version" in form:
            found[name] = form
    return found


def _source(directory: Directory, name: int | str, form: dict[str, Any], committed: dict[str, Any] | None) -> Source:
    try:
        streams = _ids(form)
        added = form.get("added", {})
        if isinstance(added, list):
            added = {stream: count for stream, count in zip(sorted(streams), added, strict=True) if count is not None}
        source = form.get("source") or {}
        return Source(
            name,
            str(source.get("consume", "range")),
            source.get("group"),
            streams,
            {} if committed is None else _ids(committed),
            {str(stream): int(count) for stream, count in added.items()},
        )
    except (ValueError, TypeError, AttributeError) as cause:
        return fail("CHECKPOINT_MALFORMED", file=directory.shown(), reason=f"the offset of source {name}: {cause}")


def _ids(form: dict[str, Any]) -> dict[str, StreamId]:
    return {str(name): StreamId.parse(str(text)) for name, text in form["streams"].items()}
