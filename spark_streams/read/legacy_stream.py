"""Streaming reads on Spark 4.0 and 4.1, which request the latest offset without passing the start of the batch.

So the reader keeps the start itself. Spark's behaviour, and its consequences:

* For a query that continues, Spark first passes the end of its last logged batch as an empty batch: `partitions(end,
  end)`. If that batch was not finished, it runs again before the next one is requested. So the next batch starts at the
  last offset that was passed or returned, and everything before it is finished.
* Trigger.AvailableNow is one batch of all existing entries, and a run that repeats an unfinished batch ends after that
  batch. So a limit would leave the remaining entries unread. Limits are always refused, because no call reveals the
  trigger.
* With spark.sql.streaming.triggerAvailableNowWrapper.enabled Spark requests the latest offset once, before any other
  call. A continuing query and a new one cannot be distinguished then. So the first answer of a run is the end of the
  streams, independent of the batch's start (`Offsets.starts`), and changes nothing on the server.
* After the batch of AvailableNow there is no further call. The batch is acknowledged at the start of the next run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from pyspark import __version__
from pyspark.sql.datasource import InputPartition

from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config.read import ReadOptions
from spark_streams.errors import fail
from spark_streams.headline import headed
from spark_streams.read.calls import StreamCalls
from spark_streams.read.query.offsets import Offsets
from streamclient.config.address import Address
from streamclient.config.option import name_of

#: Options that need the trigger or the start of the batch, which are unknown here.
_REFUSED = ("max_entries", "min_entries", "max_bytes", "group_prefix")


class LegacyStreamReader(StreamCalls):
    """Reads streams in micro-batches, each from the end of the previous batch."""

    def __init__(self, options: ReadOptions, schema: ReadSchema, address: Address) -> None:
        for field in _REFUSED:
            if getattr(options, field) is not None:
                _refuse(options, field)
        super().__init__(options, schema, address)
        self._at: dict[str, Any] | None = None  # start of the next batch; None: unknown so far
        self._has_checkpoint = False  # whether the query has a checkpoint

    @headed
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override] # noqa: N802 - as Spark had it
        """Return the end of the next batch, or the last batch's end if there are no new entries.

        Acknowledges finished batches.
        """
        if self._at is None:
            end = self._source_of().everything()
            self._at = end.to_json()
            self._keep(self._at, end)
        else:
            self._at = self._next(self._at, unlimited=True)
        return self._at

    @headed
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the start of a new query.

        The start follows from the end of the first batch, so that a repeated batch has the same start.
        """
        if self._initial is None:
            end = Offsets({}) if self._at is None else self._offset(self._at)
            self._initial = self._source_of().initial(end, is_new=not self._has_checkpoint).to_json()
        return self._initial

    @headed
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the partitions of a batch. An empty batch marks the position from which a query continues."""
        if start != end:
            return super().partitions(start, end)
        self._offset(end)
        self._at, self._has_checkpoint = end, True
        return []


def _refuse(options: ReadOptions, field: str) -> NoReturn:
    fail("SPARK_TOO_OLD", option=name_of(options, field), version=__version__)
