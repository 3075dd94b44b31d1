"""The core in this process with its streams on disk: segments are tiny and are stored after each command."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.engine.shell.durability.workload import small_segments
from tests.harness.core import CoreClient, CoreServer
from tests.harness.storing import segment_files, store


class StoredServer(CoreServer):
    """A core server that stores all sealed segments after each command, and then empties the cache of stored data."""

    kind = "stored"

    def __init__(self, proto: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ps-stored-")
        self._sizes = small_segments()
        self._sizes.__enter__()
        self._files = segment_files(Path(self._folder.name))
        super().__init__(proto)

    def execute(self, client: CoreClient, argv: list[bytes]) -> None:
        super().execute(client, argv)
        store(self.core, self._files)
        self.core.streams.storage.cache.clear()

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            self._sizes.__exit__(None, None, None)
            self._files.close()
            self._folder.cleanup()
