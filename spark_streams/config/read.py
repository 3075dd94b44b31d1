"""Options of a read, and checks of options that exclude or require each other.

Each subject has a class; the classes for columns are in `common`. Readers get `ReadOptions`, which combines all
classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

from spark_streams.config import positions, time_zones
from spark_streams.config.common import ColumnOptions, CommonOptions, SchemaOptions
from spark_streams.config.positions import Positions
from spark_streams.errors import fail
from streamclient.config.option import (
    FLAG,
    NAMES,
    TEXT,
    check_exclusive,
    choice,
    conflict,
    duration,
    name_of,
    option,
    parsed,
    refuse,
    whole,
)


@dataclass(frozen=True, kw_only=True)
class RangeOptions:
    """Reading: streams, start and end."""

    stream_list: tuple[str, ...] = option(
        "streams", NAMES, (), "Comma-separated list of streams to read together.", aliases=("subscribe",)
    )
    pattern: str | None = option(
        "streamPattern",
        TEXT,
        None,
        "Glob, such as `sensors:*`, of the streams to read together. The server matches it byte by byte. A stream "
        "found while the query runs is read from its first entry.",
    )
    pattern_refresh: int = option(
        "streamPatternRefreshMs",
        duration(),
        10_000,
        "Time between scans of all keys for new streams that match `streamPattern`. With 0, every trigger scans.",
    )
    starting_offsets: str | None = option(
        "startingOffsets",
        TEXT,
        None,
        "Start of the read: `earliest` or `-`, `latest` or `$`, `group` (after the group's last-delivered "
        "ID), an ID (inclusive; exclusive as in `(5-0`), or JSON with one of these per stream. Ignored with a "
        "checkpoint. In a streaming query whose group exists, `latest` means `group`.",
        default_text="`latest` (streaming), `earliest` (batch)",
    )
    starting_timestamp: str | None = option(
        "startingTimestamp",
        TEXT,
        None,
        "Start of the read as a time, instead of `startingOffsets`: the first entry at or after it. Milliseconds "
        "since 1970, ISO 8601 (a time without a zone is in `timeZone` or UTC), or JSON with one of these per stream.",
        aliases=("startingOffsetsByTimestamp",),
    )
    ending_offsets: str | None = option(
        "endingOffsets",
        TEXT,
        None,
        "End of a batch read: `latest` or `+`, an ID (inclusive; exclusive as in `(5-0`), or JSON with one of "
        "these per stream.",
        default_text="`latest`",
        batch_only=True,
    )
    ending_timestamp: str | None = option(
        "endingTimestamp",
        TEXT,
        None,
        "End of a batch read as a time, instead of `endingOffsets`. The read ends before the first entry at or after "
        "this time.",
        aliases=("endingOffsetsByTimestamp",),
        batch_only=True,
    )
    fails_missing: bool | None = option(
        "failOnMissingStream",
        FLAG,
        None,
        "Whether a read fails if a named stream does not exist, or no stream matches the pattern. If false, a batch "
        "read returns no rows of a missing stream, and a streaming query waits for it.",
        default_text="`true` for batch reads and, from Spark 4.2 on, the trigger `availableNow`; otherwise `false`",
    )
    fails: bool = option(
        "failOnDataLoss",
        FLAG,
        True,
        "Whether a read fails if entries were trimmed, deleted or lost with their stream before they were read. If "
        "false, the read logs a warning, and a query counts lost entries in its progress.",
    )


@dataclass(frozen=True, kw_only=True)
class GroupOptions:
    """Reading: consumer group."""

    group: str | None = option(
        "group",
        TEXT,
        None,
        "Consumer group of the query, created if missing. With `consume=range` it belongs to this query "
        "alone. Batch reads use it only for `startingOffsets=group`.",
    )
    consume: Literal["range", "shared"] = option(
        "consume",
        choice("range", "shared"),
        "range",
        "`range`: the query owns its group; partitions are ID ranges. `shared`: the query shares the group with "
        "consumers of any other programs; each task reads new entries with XREADGROUP. Streaming reads only.",
        streaming_only=True,
    )
    ack: Literal["commit", "cursor"] = option(
        "ack",
        choice("commit", "cursor"),
        "commit",
        "`commit`: entries are pending while their batch runs, and acknowledged (XACK) when it has finished. "
        "`cursor`: only the group's last-delivered ID moves, when the batch has finished. `consume=shared` requires "
        "`commit`.",
        streaming_only=True,
    )
    consumer: str = option(
        "consumer",
        TEXT,
        "spark",
        "Prefix of consumer names. The suffix is `-0`, or `-<batch>-<partition>` with `consume=shared`.",
        aliases=("consumerPrefix",),
        streaming_only=True,
    )
    takeover: bool = option(
        "groupTakeover",
        FLAG,
        False,
        "Whether the query may take over another program's or query's group, and set its last-delivered ID. Only with "
        "`consume=range`.",
        streaming_only=True,
    )
    lease: int = option(
        "groupLeaseMs",
        duration(1000),
        30_000,
        "Time for which a group stays reserved for a query whose driver was killed. The same query need not wait if "
        "it restarts with its checkpoint.",
        streaming_only=True,
    )
    claim_idle: int | None = option(
        "claimIdleMs",
        duration(1),
        None,
        "Idle time after which entries that are pending for other consumers are claimed. Without it, only the "
        "pending entries of an earlier run of this query are claimed. Choose a time that is longer than a batch. Only "
        "with `consume=shared`.",
        streaming_only=True,
    )
    max_deliveries: int | None = option(
        "maxDeliveries",
        whole(1),
        None,
        "Maximum deliveries of an entry. An entry that is delivered more often is moved to `deadLetterStream`. Only "
        "with `consume=shared`.",
        streaming_only=True,
    )
    dead_letters: str | None = option(
        "deadLetterStream",
        TEXT,
        None,
        "Stream for entries that exceed `maxDeliveries`. Its entries have the fields `_original_stream`, "
        "`_original_id`, `_original_deliveries` and `_reason`, followed by the original fields.",
        streaming_only=True,
    )
    trims: bool = option(
        "trimOnCommit",
        FLAG,
        False,
        "Whether entries of finished batches are removed (XTRIM MINID), except those that any group has yet to read or "
        "acknowledge.",
        streaming_only=True,
    )


@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """Reading: size of micro-batches and partitions."""

    max_entries: int | None = option(
        "maxEntriesPerTrigger",
        whole(1),
        None,
        "Maximum entries per micro-batch, shared among the streams in proportion to their backlog.",
        aliases=("maxOffsetsPerTrigger",),
        streaming_only=True,
    )
    min_entries: int | None = option(
        "minEntriesPerTrigger",
        whole(1),
        None,
        "Minimum entries per micro-batch after the first. The query waits for them, for at most `maxTriggerDelay`. Not "
        "with `consume=shared`.",
        aliases=("minOffsetsPerTrigger",),
        streaming_only=True,
    )
    max_delay: int = option(
        "maxTriggerDelay",
        duration(),
        900_000,
        "Maximum wait for `minEntriesPerTrigger`.",
        streaming_only=True,
    )
    idle_wait: int = option(
        "idleWaitMs",
        duration(),
        100,
        "Time for which a trigger without new entries waits at the server (XREAD BLOCK): longer with thousands of "
        "streams, but at most 1 s. Other sources of the query wait too. With 0, an idle query takes ten times the "
        "processor time.",
    )
    min_partitions: int = option(
        "minPartitions", whole(1), 1, "Minimum partitions per micro-batch or batch; ranges are split to reach it."
    )
    max_partitions: int | None = option(
        "maxPartitions",
        whole(1),
        None,
        "Maximum partitions per micro-batch or batch; small ranges of several streams share one. With "
        "`maxEntriesPerPartition` there may be more partitions.",
        default_text="one per core of the driver's machine, or one per 100,000 entries if that is more",
    )
    max_per_partition: int | None = option(
        "maxEntriesPerPartition",
        whole(1),
        None,
        "Maximum entries per partition; larger ranges are split.",
        aliases=("maxRecordsPerPartition",),
    )
    page_size: int = option(
        "pageSize",
        whole(1),
        20_000,
        "Maximum entries per reply, which holds about one megabyte. Set a lower number if values have many megabytes.",
    )


@dataclass(frozen=True, kw_only=True)
class ReadOptions(ColumnOptions, LimitOptions, GroupOptions, RangeOptions, SchemaOptions, CommonOptions):
    """Options of a reader. Times are in milliseconds. `session_zone`: see `options.SESSION_ZONE`."""

    session_zone: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_exclusive(self, "stream", "stream_list", "pattern")
        check_exclusive(self, "starting_offsets", "starting_timestamp")
        check_exclusive(self, "ending_offsets", "ending_timestamp")
        if not self.streams and self.pattern is None:
            fail("MISSING_STREAM")
        self.check_schemas(self.value_format, writes=False)
        if self.infers and self.value_format not in ("fields", "json"):
            conflict(self, "infers", "value_format")
        self._check_group()
        self._check_dead_letters()
        if self.min_entries is not None and self.max_entries is not None and self.min_entries > self.max_entries:
            refuse(self, "min_entries", "it must not be more than maxEntriesPerTrigger")
        if self.max_partitions is not None and self.min_partitions > self.max_partitions:
            refuse(self, "min_partitions", "it must not be more than maxPartitions")
        if "group" in self.starting.kinds and self.group is None:
            fail("MISSING_GROUP", option=name_of(self, "starting_offsets"), value="group")
        _ = self.ending  # parsed here so that an invalid value fails early

    def _check_group(self) -> None:
        if not self.shared:
            for name in ("claim_idle", "max_deliveries"):
                if getattr(self, name) is not None:
                    refuse(
                        self, name, f"it needs consume=shared: set consume to shared, or remove {name_of(self, name)}"
                    )
            return
        if self.takeover:
            refuse(self, "takeover", "a shared group is not owned by a single query")
        if self.group is None:
            fail("MISSING_GROUP", option=name_of(self, "consume"), value="shared")
        if self.ack != "commit":
            refuse(self, "ack", "with consume=shared it must be 'commit'")
        if self.min_entries is not None:
            reason = "with consume=shared, other consumers also read entries, so the query cannot count them in advance"
            refuse(self, "min_entries", reason)

    def _check_dead_letters(self) -> None:
        if self.max_deliveries is not None and self.dead_letters is None:
            refuse(self, "max_deliveries", "it needs deadLetterStream: entries above maxDeliveries would be lost")
        if self.dead_letters is not None and self.max_deliveries is None:
            refuse(self, "dead_letters", "it needs maxDeliveries, and consume=shared")
        if self.dead_letters is not None and self.dead_letters in self.streams:
            refuse(self, "dead_letters", "it must not be a stream that the query reads")

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams to read; empty if `pattern` finds them."""
        return self.stream_list or (() if self.stream is None else (self.stream,))

    @property
    def shared(self) -> bool:
        """Whether other consumers share the group."""
        return self.consume == "shared"

    @cached_property
    def starting(self) -> Positions:
        """The start positions that the user has set."""
        return self._positions("starting_offsets", "starting_timestamp", end=False)

    @cached_property
    def ending(self) -> Positions:
        """The end positions that the user has set."""
        return self._positions("ending_offsets", "ending_timestamp", end=True)

    def _positions(self, offsets: str, time: str, *, end: bool) -> Positions:
        """Return the positions in the option `offsets` or in the option `time`."""
        zone = self.zone or time_zones.UTC
        for field, read in (
            (offsets, partial(positions.parse_ids, end=end)),
            (time, partial(positions.parse_times, zone=zone)),
        ):
            text: str | None = getattr(self, field)
            if text is not None:
                return parsed(name_of(self, field), partial(read, streams=self.streams), text)
        return Positions()
