"""Files in any file system that Spark supports (`s3a://`, `hdfs://`, local paths), by Hadoop's FileSystem.

This module makes all calls to the JVM about files. Failures of these calls become FILE_UNUSABLE.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pystreams.errors import fail


@dataclass(frozen=True)
class Found:
    """A file: its URI, and its size in bytes."""

    uri: str
    size: int

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """The name of the file's directory."""
        return self.uri.rpartition("/")[0].rpartition("/")[2]


class Files:
    """The file systems of a session. Raises FILE_UNUSABLE if a file system refuses an operation."""

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        assert context._jvm is not None
        self._jvm: Any = context._jvm
        self._settings: Any = context._jsc.hadoopConfiguration()

    def exists(self, uri: str) -> bool:
        with self._at(uri) as (system, path):
            return bool(system.exists(path))

    def is_file(self, uri: str) -> bool:
        with self._at(uri) as (system, path):
            return bool(system.exists(path) and system.getFileStatus(path).isFile())

    def read_text(self, uri: str) -> str:
        with self._at(uri) as (system, path):
            stream = system.open(path)
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def write_text(self, uri: str, text: str) -> None:
        """Write a file so that readers never see a part of it.

        Readers may briefly find no file, since an existing file is deleted before the new one is renamed.
        """
        draft = f"{uri.rpartition('/')[0]}/.{uri.rpartition('/')[2]}.draft"
        with self._at(draft) as (system, path):
            stream = system.create(path, True)
            stream.write(bytearray(text.encode()))
            stream.close()
        self.delete(uri)
        self.rename(draft, uri)

    def rename(self, source: str, target: str) -> None:
        """Rename a file, creating the target's directory if needed. Afterwards the content is on disk."""
        with self._at(target) as (system, path):
            system.mkdirs(path.getParent())
        self.settle(source)
        with self._at(source) as (system, path):
            if not system.rename(path, self._jvm.org.apache.hadoop.fs.Path(target)):
                fail("FILE_UNUSABLE", file=target, reason="renaming a file to it failed")
        self.settle(target.rpartition("/")[0])

    def settle(self, uri: str) -> None:
        """Sync a local file or directory to disk. Other file systems do so when a file is closed."""
        with self._at(uri) as (system, path):
            whole = str(system.makeQualified(path).toUri())
        if urlsplit(whole).scheme != "file":
            return
        local = Path(unquote(urlsplit(whole).path))
        if local.exists():
            handle = os.open(local, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def delete(self, uri: str) -> None:
        """Remove a file, or a directory with its contents. Nothing happens if it is missing."""
        with self._at(uri) as (system, path):
            system.delete(path, True)

    def matching(self, pattern: str) -> list[Found]:
        """Return the files that match a glob, sorted by URI."""
        with self._at(pattern) as (system, path):
            found = [
                Found(str(each.getPath().toString()), int(each.getLen()))
                for each in system.globStatus(path) or ()
                if each.isFile()
            ]
        return sorted(found, key=lambda each: each.uri)

    @contextmanager
    def _at(self, uri: str) -> Iterator[tuple[Any, Any]]:
        """Yield the file system of a URI, and the URI as a path in that file system."""
        try:
            path = self._jvm.org.apache.hadoop.fs.Path(uri)
            yield path.getFileSystem(self._settings), path
        except Py4JJavaError as cause:
            thrown: Any = cause.java_exception
            reason = str(thrown.getMessage() or thrown.getClass().getSimpleName()).splitlines()[0].rstrip(".")
            fail("FILE_UNUSABLE", file=uri, reason=reason)
