"""Options of a write, and checks of options that exclude or require each other.

Each subject has a class. Writers get `WriteOptions`, which combines all classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spark_streams.config.common import CommonOptions, SchemaOptions
from streamclient.config.option import (
    FLAG,
    TEXT,
    choice,
    conflict,
    duration,
    name_of,
    option,
    refuse,
    whole,
)


@dataclass(frozen=True, kw_only=True)
class GuaranteeOptions:
    """Writing: guarantees."""

    mode: Literal["exactlyOnce", "atomic", "staged", "append"] = option(
        "writeMode",
        choice("exactlyOnce", "atomic", "staged", "append"),
        "exactlyOnce",
        "How often a row is written if its batch is repeated. `exactlyOnce`: once; each chunk of rows is a "
        "transaction. `atomic`: once, with one transaction for all rows of a task and stream (several if only some "
        "rows have their own IDs). `staged`: once, even if the batch is repeated with other partitions, rows or order; "
        "the driver publishes the rows at the end of the batch. `append`: again in each repetition.",
    )
    overwrites_unread: bool = option(
        "overwriteUnread",
        FLAG,
        True,
        'Whether `mode("overwrite")` may remove entries that a consumer group has yet to read or acknowledge. If '
        "false, such a write fails and writes nothing. False needs the option `stream`.",
        batch_only=True,
    )
    write_id: str | None = option(
        "writeId",
        TEXT,
        None,
        "ID of a batch write. A repetition with the same ID, even by another program, adds no row twice. Not needed in "
        "`foreachBatch`, except with Spark Connect. Batch writes only, not with `writeMode=append`.",
        batch_only=True,
    )
    fence_retention: int = option(
        "fenceRetentionMs",
        duration(),
        30 * 86_400_000,
        "Retention of deduplication records after the last write of a query or `writeId`. Less than a day counts as a "
        "day. 0 keeps the records forever.",
    )
    allow_eviction: bool = option(
        "allowEviction",
        FLAG,
        False,
        "Whether deduplication records may be kept on a server that evicts keys (`maxmemory` with a policy "
        "other than `noeviction`). If its records are evicted, a repeated batch writes its rows twice.",
    )
    wait_replicas: int = option(
        "waitReplicas", whole(0), 0, "Number of replicas that must have a task's rows before the task succeeds (WAIT)."
    )
    wait_timeout: int = option(
        "waitTimeoutMs",
        duration(),
        10_000,
        "Maximum wait for `waitReplicas`, after which the task fails. 0 waits indefinitely.",
    )
    chunk_size: int = option("chunkSize", whole(1), 5000, "Maximum rows in a chunk, which is sent as a whole.")


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """Writing: target streams."""

    key_column: str | None = option(
        "keyColumn",
        TEXT,
        None,
        "Column whose value selects a row's stream among `partitions`. Rows with equal keys go to the same stream.",
    )
    partitions: int | None = option(
        "partitions",
        whole(1),
        None,
        "Number of streams over which rows are distributed by the CRC16 of the text in `keyColumn`: `<stream>:{0}`, "
        "`<stream>:{1}` and so on.",
    )
    keep_ids: bool = option(
        "keepIds",
        FLAG,
        True,
        "Whether a column `_id` gives the entries their IDs, which must be larger than all IDs in the stream. If "
        "false, the server chooses the IDs.",
    )


@dataclass(frozen=True, kw_only=True)
class TrimOptions:
    """Writing: trimming, after each chunk."""

    maxlen: int | None = option("maxlen", whole(0), None, "Maximum entries in the stream; the oldest are removed.")
    retention: int | None = option(
        "retentionMs", duration(), None, "Maximum age of entries, by their IDs; older entries are removed."
    )
    approximate: bool = option(
        "approximate",
        FLAG,
        True,
        "Whether trimming is approximate (`~`), which is cheaper but may keep extra entries.",
    )


@dataclass(frozen=True, kw_only=True)
class WriteOptions(TrimOptions, TargetOptions, GuaranteeOptions, SchemaOptions, CommonOptions):
    """Options of a writer. `stream` is None if each row names its own stream. Times are in milliseconds."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.value_format == "debezium":
            refuse(self, "value_format", "it is for reading only: only Debezium writes this format")
        self.check_schemas(self.value_format, writes=True)
        for name, needed in (("key_column", "partitions"), ("partitions", "key_column"), ("partitions", "stream")):
            if getattr(self, name) is not None and getattr(self, needed) is None:
                refuse(self, name, f"it needs '{name_of(self, needed)}' as well")
        if self.write_id is not None and self.mode == "append":
            conflict(self, "write_id", "mode")
