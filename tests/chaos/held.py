"""The data source with a commit that can be held, so that a driver can be killed at a chosen moment.

The harness writes the name of a moment into the file `hold` of the directory in `PYSTREAMS_CHAOS`. The next commit that
reaches this moment creates the file `held` and waits until `hold` is removed:

    before    all tasks of the batch have ended, the driver has done nothing yet
    within    rows are about to be moved from their staging into the stream
    after     the batch is committed at the server, and Spark does not know yet
"""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_streams.source import PystreamsDataSource
from spark_streams.write.publishing import Mover
from spark_streams.write.records import ChunkState
from spark_streams.write.sink import StreamWriter
from tests.suite.waiting import wait_for

DIRECTORY = "PYSTREAMS_CHAOS"
_PATIENCE = 120.0


def hold(moment: str) -> None:
    """Wait here if the harness has requested this moment."""
    directory = Path(os.environ[DIRECTORY])
    order = directory / "hold"
    if order.exists() and order.read_text() == moment:
        (directory / "held").touch()
        wait_for(lambda: not order.exists(), "the harness to let go", _PATIENCE)


class HeldWriter(StreamWriter):
    """A `StreamWriter` whose `commit` can be paused."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        hold("before")
        move = Mover.move

        def held(mover: Mover, number: int, state: ChunkState) -> bool:
            hold("within")
            return move(mover, number, state)

        Mover.move = held  # type: ignore[method-assign]
        try:
            super().commit(messages, batchId)
        finally:
            Mover.move = move  # type: ignore[method-assign]
        hold("after")


class HeldDataSource(PystreamsDataSource):
    """The data source `pystreams` under another name."""

    @classmethod
    def name(cls) -> str:
        return "pystreams-held"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return HeldWriter(self._sink(schema, streaming=True, overwrite=overwrite))
