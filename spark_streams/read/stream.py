"""Streaming readers: answers to Spark's calls, with or without a consumer group.

Spark's behaviour, and its consequences:

* `initialOffset` is called several times, and again if the query restarts before its first batch. The first answer is
  kept: in the consumer group, which is created at the answered ID, and in the reader object.
* `commit` of a batch is called only when the next batch has been planned, so an idle stream would leave its last batch
  pending. So everything up to the last batch's end is acknowledged as soon as the next batch is requested.
* A batch is logged before it runs, and a logged batch is replayed from `partitions` alone. Earlier deliveries and
  acknowledgements, and changes of options, must not affect the result.
* With asynchronous progress tracking, the start that Spark passes may be ahead of the checkpoint, and a restart
  requests entries before this start. Spark calls `commit` for batches in the checkpoint. If it has called `commit` for
  the start of the last planned batch, progress is synchronous: the checkpoint keeps up with planning. Then everything
  up to the end of that batch can be acknowledged and trimmed when the next batch is requested. Otherwise this is
  possible only up to the last committed offset. Before the second batch of a run, it is unknown whether progress is
  synchronous, so entries are acknowledged but not trimmed. With the trigger AvailableNow progress is always
  synchronous, because Spark refuses to combine this trigger with asynchronous progress tracking.
* Spark runs an empty batch if the text of the returned offset differs from the last offset. So if there are no new
  entries, the same offset is returned.

The reader object lives in a planner process while the query runs. Every task calls `read` on a copy of it
(`TaskReader`), whose cost does not grow with the number of streams.

Since Spark 4.2, `latestOffset` is called at every trigger with the end of the last finished batch (`StreamReader`).
Spark 4.0 and 4.1 request the latest offset without passing the start of the batch. So `LegacyStreamReader` keeps the
start itself:

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
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark import __version__
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

    HAS_LIMITS = True
except ImportError:  # Spark 4.0 and 4.1, which use `LegacyStreamReader`
    ReadAllAvailable = ReadLimit = ReadMaxRows = SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]
    HAS_LIMITS = False

from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config.read import ReadOptions
from spark_streams.errors import fail, headed
from spark_streams.read.query.offsets import Finish, Offsets
from spark_streams.read.query.partition import TaskReader
from streamclient import pool
from streamclient.config.address import Address
from streamclient.config.option import name_of

if TYPE_CHECKING:
    from spark_streams.read.ranges.source import RangeSource
    from spark_streams.read.shared.source import SharedSource


_CACHED_OFFSETS = 3  # number of cached parsed offsets: the start and end of a batch, and the end of the streams


class StreamCalls(TaskReader, DataSourceStreamReader):
    """Base class of the readers for each Spark release. It owns the source and the last offsets."""

    _available_now = False  # whether the trigger is AvailableNow

    def __init__(self, options: ReadOptions, schema: ReadSchema, address: Address) -> None:
        super().__init__(schema)
        self._options = options
        self.source: SharedSource | RangeSource
        if options.shared:
            from spark_streams.read.shared.source import SharedSource  # noqa: PLC0415 - a query uses one of the two

            self.source = SharedSource(options, address)
        else:
            from spark_streams.read.ranges.source import RangeSource  # noqa: PLC0415 - as above

            self.source = RangeSource(options, address)
        self._initial: dict[str, Any] | None = None
        self._parsed: list[tuple[dict[str, Any], Offsets]] = []  # offsets of the last calls
        self._planned_from: dict[str, Any] | None = None  # start of the last planned batch
        self._may: Finish = "acknowledge"
        self._first_end: dict[str, Any] | None = None  # end of the first batch of this run

    def _next(self, start: dict[str, Any], *, unlimited: bool) -> dict[str, Any]:
        """Return the end of the batch after `start`, or `start` if there are no new entries.

        Acknowledges everything up to `start`, except with consume=range if progress is known to be asynchronous.
        """
        begin = self._offset(start)
        may: Finish = "trim" if self._available_now else self._may
        end = self.source.next(begin, unlimited=unlimited, may=may)
        if end is begin:
            return start
        # Until Spark calls commit for `start`, which it never does for the start of a run's first batch.
        self._may = "acknowledge" if self._planned_from is None else "keep"
        self._planned_from = start
        form = end.to_json()
        self._keep(form, end)
        return form

    def _offset(self, form: dict[str, Any]) -> Offsets:
        """Return the offset of a stored form. The same form gives the same object.

        So it is parsed only once, and sources can compare offsets by identity.
        """
        for known, offset in self._parsed:
            if known == form:
                return offset
        offset = Offsets.from_json(form)
        self._keep(form, offset)
        return offset

    def _keep(self, form: dict[str, Any], offset: Offsets) -> None:
        self._parsed = [(form, offset), *self._parsed[: _CACHED_OFFSETS - 1]]

    @headed
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the partitions of the batch between two offsets. A replay gets the same partitions."""
        offsets = self._offset(start), self._offset(end)
        planned = self.source.partitions(*offsets)
        if self._first_end is None:
            self._first_end = end
        return [replace(part, checks_fields=True) for part in planned] if end == self._first_end else planned

    @headed
    def commit(self, end: dict[str, Any]) -> None:
        """Acknowledge everything up to `end`, because these batches are finished, and trim it if the query trims."""
        self.source.commit(self._offset(end))
        self._may = "trim" if end == self._planned_from else "keep"

    @headed
    def stop(self) -> None:
        """Release the query's group and close the planner's connections, at the end of the query."""
        self.source.stop()
        pool.close_all()


class StreamReader(StreamCalls, SupportsTriggerAvailableNow):
    """Reads streams in micro-batches (Spark 4.2 and later)."""

    def __init__(self, options: ReadOptions, schema: ReadSchema, address: Address) -> None:
        super().__init__(options, schema, address)
        self._reported: tuple[Offsets, dict[str, Any]] | None = None

    @headed
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the start of a new query. Every call returns the same start."""
        if self._initial is None:
            self._initial = self.source.initial().to_json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        # The limits come from the options. Spark's value only shows that a batch has no limit: with Trigger.Once, or if
        # no option sets one.
        options = self._options
        limited = options.max_entries is not None or options.min_entries is not None
        return ReadMaxRows(options.max_entries or 1) if limited else ReadAllAvailable()

    @headed
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Prepare for Trigger.AvailableNow: read all existing entries, then stop."""
        self._available_now = True
        self.source.prepare_available_now()

    @headed
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch; `start` itself if there is no next batch.

        Acknowledges finished batches.
        """
        return self._next(start, unlimited=isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the last known end of the streams, for the query's progress."""
        latest = self.source.latest
        if latest is None:
            return None
        if self._reported is None or self._reported[0] is not latest:
            self._reported = latest, latest.to_json()
        return self._reported[1]


#: Options that need the trigger or the start of the batch, which are unknown here.
_REFUSED = ("max_entries", "min_entries")


class LegacyStreamReader(StreamCalls):
    """Reads streams in micro-batches, each from the end of the previous batch (Spark 4.0 and 4.1)."""

    def __init__(self, options: ReadOptions, schema: ReadSchema, address: Address) -> None:
        for field in _REFUSED:
            if getattr(options, field) is not None:
                fail("SPARK_TOO_OLD", option=name_of(options, field), version=__version__)
        super().__init__(options, schema, address)
        self._at: dict[str, Any] | None = None  # start of the next batch; None: unknown so far
        self._has_checkpoint = False  # whether the query has a checkpoint

    @headed
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override] # noqa: N802 - as Spark had it
        """Return the end of the next batch, or the last batch's end if there are no new entries.

        Acknowledges finished batches.
        """
        if self._at is None:
            end = self.source.everything()
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
            self._initial = self.source.initial(end, is_new=not self._has_checkpoint).to_json()
        return self._initial

    @headed
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the partitions of a batch. An empty batch marks the position from which a query continues."""
        if start != end:
            return super().partitions(start, end)
        self._offset(end)
        self._at, self._has_checkpoint = end, True
        return []
