"""The options of a read or write as a dict for Spark, with names and types for editors and type checkers.

    spark.readStream.format("pystreams").options(**spark_streams.options(stream="orders", group="billing"))

`scripts/option_docs.py` generates `Options` from the declarations of the options, which are the only source of their
descriptions. A dot in an option's name is an underscore here: `tls_caFile` is `tls.caFile`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, Unpack, cast

from spark_streams.config import options as parsing


# fmt: off
# options: written by scripts/option_docs.py
class Options(TypedDict, total=False):
    """Options of a read or a write."""

    url: str
    """Server address: `redis://`, `rediss://` (TLS), `unix://`, `redis+sentinel://` or `redis+cluster://`. By default,
    the environment variable `PYSTREAMS_URL` or, if it is not set, the embedded engine."""
    embedded_dir: str
    """Data directory of the embedded engine: an absolute path, or a name below `PYSTREAMS_HOME` (by default `pystreams`
    in the user's state directory). Without it, data is in memory only."""
    user: str
    """ACL user. Overrides the user in the URL; by default the environment variable `PYSTREAMS_USER`."""
    password: str
    """Password. Overrides the password in the URL; by default the environment variable `PYSTREAMS_PASSWORD`."""
    passwordFile: str
    """File with the password, in place of `password`, on every machine that runs tasks. It is read for each connection,
    so the password may change."""
    credentialProvider: str
    """Python function `module:function`, in place of `user` and `password`, that returns a credential provider of
    redis-py. The provider is called for each connection, and every five minutes while the connection is in use."""
    sentinelUser: str
    """ACL user at the Sentinels, which have their own users."""
    sentinelPassword: str
    """Password at the Sentinels."""
    tls_caFile: str
    """File with the CA certificates to trust. Without it, the system's CAs are trusted."""
    tls_certFile: str
    """File with the client certificate."""
    tls_keyFile: str
    """File with the client certificate's private key."""
    tls_keyPassword: str
    """Password of the private key."""
    tls_verify: Literal["full", "ca", "none"]
    """Checks of the server's certificate: `full` (CA and host name), `ca` (only CA) or `none`. Default: full."""
    retryTimeoutMs: int | str | timedelta
    """Retry time when a connection breaks or the server is not ready. It also applies to the first connection, so a
    query can start during a failover. Set it longer than a failover takes. Default: 15s."""
    stream: str
    """Stream to read from or write to. It may be the argument of `load`, `save` or `start`. The name is taken
    literally. Writes without this option need a column `_stream` with each row's stream."""
    valueFormat: Literal["fields", "json", "avro", "protobuf", "debezium"]
    """`fields`: a column is the entry's field of the same name. `json`: one field, `valueField`, holds all columns as a
    JSON object. `avro`, `protobuf`: `valueField` holds all columns as a record or message. Other options set the schema
    (install `pystreams-spark[formats]`). `debezium` (reading only): a column is a member of a change event that
    Debezium's Redis sink wrote in its format `compact` or `extended`, and `_key` is the event's key. Default:
    fields."""
    valueField: str
    """Field that holds all columns. Only with `valueFormat` json, avro or protobuf. Default: value."""
    nullValue: str
    """Text that represents null. Without it, writes omit null columns. Reads convert empty text to null except in
    string and binary columns. Only with `valueFormat=fields`."""
    timeZone: str
    """Reading: time zone of timestamps that name none. Writing: time zone in which timestamps are written, with its
    offset; UTC is written as `Z`. A name such as `Europe/Berlin`, or an offset such as `+02:00`. Default: session time
    zone (read), `UTC` (write)."""
    valueSchema: str
    """Schema of the values. `avro`, `json`: as JSON. Reads of Avro with a registry resolve all values to this schema.
    `protobuf`: a FileDescriptorSet as Base64, or the text of a `.proto` file."""
    valueSchemaFile: str
    """File with the schema of the values, on the driver's machine: `.avsc`, a FileDescriptorSet (`protoc
    --include_imports --descriptor_set_out`) or `.proto`. In place of `valueSchema`."""
    valueMessage: str
    """Message in the Protobuf schema: its full name, or the last part of the name. Default: the first message in the
    schema's file."""
    schemaRegistry_url: str
    """Registry with Confluent's interface, `http://` or `https://`. With a registry, values begin with a header: a zero
    byte and the ID of their schema. Without a registry, values have no header."""
    schemaRegistry_user: str
    """User at the registry, or API key."""
    schemaRegistry_password: str
    """Password at the registry, or API secret."""
    schemaRegistry_token: str
    """Bearer token, in place of user and password."""
    schemaRegistry_caFile: str
    """File with the CA certificates to trust for the registry, on every machine that runs tasks. Default: the
    certificates in `tls.caFile`, else the system's."""
    schemaRegistry_timeoutMs: int | str | timedelta
    """Timeout for a schema, including retries and the schema's references. Default: 10s."""
    schemaRegistry_subject: str
    """Subject in which writes register schemas. If no other option sets a schema, the subject's latest schema is the
    reader's schema, and determines the columns of reads that are given no schema. Default: `<stream>-value`."""
    schemaRegistry_register: bool
    """Writing: whether a new schema is registered. If false, rows are written with `valueSchema`, which the subject
    must have, or with the subject's latest schema if `valueSchema` is not set. Default: true."""
    readFrom: Literal["primary", "preferReplica", "az"]
    """Server from which tasks read ranges. `preferReplica`: a replica that has the whole range, else the primary. `az`:
    like `preferReplica`, but only replicas in the task's availability zone. Groups are always served by the primary.
    Not with `consume=shared`. Default: primary."""
    availabilityZone: str
    """Availability zone for `readFrom=az`. By default, the environment variable `PYSTREAMS_AVAILABILITY_ZONE` of each
    executor."""
    streams: str | Sequence[str]
    """Comma-separated list of streams to read together."""
    streamPattern: str
    """Glob, such as `sensors:*`, of the streams to read together. The server matches it byte by byte. A stream found
    while the query runs is read from its first entry."""
    subscribePattern: str
    """Regular expression (of Python) that matches a stream's whole name, in place of `streamPattern`."""
    streamPatternRefreshMs: int | str | timedelta
    """Time between scans of all keys for new streams that match `streamPattern`. With 0, every trigger scans. Default:
    10s."""
    startingOffsets: str | Mapping[str, str]
    """Start of the read: `earliest` or `-`, `latest` or `$`, `group` (after the group's last-delivered ID), an ID
    (inclusive; exclusive as in `(5-0`), or JSON with one of these per stream. Ignored with a checkpoint. In a streaming
    query whose group exists, `latest` means `group`. Default: `latest` (streaming), `earliest` (batch)."""
    startingTimestamp: str | int | datetime | Mapping[str, str | int]
    """Start of the read as a time, instead of `startingOffsets`: the first entry at or after it. Milliseconds since
    1970, ISO 8601 (a time without a zone is in `timeZone` or UTC), or JSON with one of these per stream."""
    startingOffsetsByTimestampStrategy: Literal["wait", "latest", "error"]
    """Behaviour of a new query if a stream has no entry at or after `startingTimestamp`: skip entries until that time
    (`wait`), read all new entries (`latest`) or fail (`error`). Default: wait."""
    endingOffsets: str | Mapping[str, str]
    """End of a batch read: `latest` or `+`, an ID (inclusive; exclusive as in `(5-0`), or JSON with one of these per
    stream. Default: `latest`."""
    endingTimestamp: str | int | datetime | Mapping[str, str | int]
    """End of a batch read as a time, instead of `endingOffsets`. The read ends before the first entry at or after this
    time."""
    failOnMissingStream: bool
    """Whether a read fails if a named stream does not exist, or no stream matches the pattern. If false, a batch read
    returns no rows of a missing stream, and a streaming query waits for it. Default: `true` for batch reads and, from
    Spark 4.2 on, the trigger `availableNow`; otherwise `false`."""
    failOnDataLoss: bool
    """Whether a read fails if entries were trimmed, deleted or lost with their stream before they were read. If false,
    the read logs a warning, and a query counts lost entries in its progress. Default: true."""
    group: str
    """Consumer group of the query, created if missing. With `consume=range` it belongs to this query alone. Batch reads
    use it only for `startingOffsets=group`."""
    groupIdPrefix: str
    """Prefix of a generated group name, in place of `group`. Each query creates its own group, `<prefix>-<random>`, and
    stores the name in its checkpoint. Only with `consume=range`."""
    consume: Literal["range", "shared"]
    """`range`: the query owns its group; partitions are ID ranges. `shared`: the query shares the group with consumers
    of any other programs; each task reads new entries with XREADGROUP. Streaming reads only. Default: range."""
    ack: Literal["commit", "cursor", "none"]
    """`commit`: entries are pending while their batch runs, and acknowledged (XACK) when it has finished. `cursor`:
    only the group's last-delivered ID moves, when the batch has finished. `none`: an existing group is not changed.
    `consume=shared` requires `commit`. Default: commit."""
    consumer: str
    """Prefix of consumer names. The suffix is `-<partition>`, or `-<batch>-<partition>` with `consume=shared`. Default:
    spark."""
    groupTakeover: bool
    """Whether the query may take over another program's or query's group, and set its last-delivered ID. Only with
    `consume=range`. Default: false."""
    groupLeaseMs: int | str | timedelta
    """Time for which a group stays reserved for a query whose driver was killed. The same query need not wait if it
    restarts with its checkpoint. Default: 30s."""
    claimIdleMs: int | str | timedelta
    """Idle time after which entries that are pending for other consumers are claimed. Without it, only the pending
    entries of an earlier run of this query are claimed. Choose a time that is longer than a batch. Only with
    `consume=shared`."""
    maxDeliveries: int | str
    """Maximum deliveries of an entry. An entry that is delivered more often is moved to `deadLetterStream`. Only with
    `consume=shared`."""
    deadLetterStream: str
    """Stream for entries that exceed `maxDeliveries`. Its entries have the fields `_original_stream`, `_original_id`,
    `_original_deliveries` and `_reason`, followed by the original fields."""
    trimOnCommit: bool
    """Whether entries of finished batches are removed (XTRIM MINID), except those that any group has yet to read or
    acknowledge. Default: false."""
    maxEntriesPerTrigger: int | str
    """Maximum entries per micro-batch, shared among the streams in proportion to their backlog."""
    minEntriesPerTrigger: int | str
    """Minimum entries per micro-batch after the first. The query waits for them, for at most `maxTriggerDelay`. Not
    with `consume=shared`."""
    maxTriggerDelay: int | str | timedelta
    """Maximum wait for `minEntriesPerTrigger`. Default: 15m."""
    maxBytesPerTrigger: int | str
    """Approximate maximum bytes per micro-batch, estimated from the size of the next entries. Not with
    `consume=shared`."""
    idleWaitMs: int | str | timedelta
    """Time for which a trigger without new entries waits at the server (XREAD BLOCK): longer with thousands of streams,
    but at most 1 s. Other sources of the query wait too. With 0, an idle query takes ten times the processor time.
    Default: 100ms."""
    minPartitions: int | str
    """Minimum partitions per micro-batch or batch; ranges are split to reach it. Default: 1."""
    maxPartitions: int | str
    """Maximum partitions per micro-batch or batch; small ranges of several streams share one. With
    `maxEntriesPerPartition` there may be more partitions. Default: one per core of the driver's machine, or one per
    100,000 entries if that is more."""
    maxEntriesPerPartition: int | str
    """Maximum entries per partition; larger ranges are split."""
    pageSize: int | str
    """Maximum entries per reply. A reply holds about one megabyte, or up to eight for entries with a hundred or more
    fields. Set a lower number if values have many megabytes. Default: 20000."""
    fieldsType: Literal["string", "binary"]
    """Type of the names and values in the map column `fields` when no schema is given. Default: string."""
    inferSchema: bool
    """Whether to infer a schema from the first entries when none is given: a column per field, with the narrowest type
    that fits all its values. Default: false."""
    samplingSize: int | str
    """Number of entries that `inferSchema` reads from each stream. Default: 1000."""
    requireFields: bool
    """Whether a task fails if a column is null in all rows of the task, as a column with a misspelt name would be. If
    false, a warning is logged. Batch reads and the first batch after a query's start are checked. Default: false."""
    mode: Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]
    """Treatment of a malformed entry, which has a value that does not fit its column's type. `PERMISSIVE`: the value is
    null. `DROPMALFORMED`: the entry is dropped. `FAILFAST`: the query fails. Default: PERMISSIVE."""
    columnNameOfCorruptRecord: str
    """String column for malformed entries, if the schema has it. It gets `valueField` as text (Avro and Protobuf: as
    Base64). With `valueFormat` fields or debezium, or if that field is missing, it gets the whole entry as JSON.
    Default: _corrupt_record."""
    timestampFormat: Literal["iso", "epoch", "seconds", "milliseconds", "microseconds"]
    """Meaning of numbers in timestamp columns. `iso`: numbers are not times, but `2013` is a year and `20130704` a
    date. `seconds`, `milliseconds`, `microseconds`: time since 1970 in this unit. `epoch`: time since 1970 with eight
    or more digits: seconds below 10^11, milliseconds below 10^14, else microseconds. Numbers in JSON are always read as
    with `epoch`. Default: iso."""
    writeMode: Literal["exactlyOnce", "atomic", "staged", "append"]
    """How often a row is written if its batch is repeated. `exactlyOnce`: once; each chunk of rows is a transaction.
    `atomic`: once, with one transaction for all rows of a task and stream (several if only some rows have their own
    IDs). `staged`: once, even if the batch is repeated with other partitions, rows or order; the driver publishes the
    rows at the end of the batch. `append`: again in each repetition. Default: exactlyOnce."""
    saveMode: Literal["append", "error", "ignore"]
    """Behaviour of a batch write with `mode("append")` if the stream exists: `append`, `error` (fail) or `ignore`
    (write nothing). Spark refuses `mode("error")` and `mode("ignore")`. Default: append."""
    overwriteUnread: bool
    """Whether `mode("overwrite")` may remove entries that a consumer group has yet to read or acknowledge. If false,
    such a write fails and writes nothing. False needs the option `stream`. Default: true."""
    writeId: str
    """ID of a batch write. A repetition with the same ID, even by another program, adds no row twice. Not needed in
    `foreachBatch`, except with Spark Connect. Batch writes only, not with `writeMode=append`."""
    fenceRetentionMs: int | str | timedelta
    """Retention of deduplication records after the last write of a query or `writeId`. Less than a day counts as a day.
    0 keeps the records forever. Default: 30d."""
    allowEviction: bool
    """Whether deduplication records may be kept on a server that evicts keys (`maxmemory` with a policy other than
    `noeviction`). If its records are evicted, a repeated batch writes its rows twice. Default: false."""
    waitReplicas: int | str
    """Number of replicas that must have a task's rows before the task succeeds (WAIT). Default: 0."""
    waitTimeoutMs: int | str | timedelta
    """Maximum wait for `waitReplicas`, after which the task fails. 0 waits indefinitely. Default: 10s."""
    chunkSize: int | str
    """Maximum rows in a chunk, which is sent as a whole. Default: 5000."""
    keyColumn: str
    """Column whose value selects a row's stream among `partitions`. Rows with equal keys go to the same stream."""
    partitions: int | str
    """Number of streams over which rows are distributed by the CRC16 of the text in `keyColumn`: `<stream>:{0}`,
    `<stream>:{1}` and so on."""
    keepIds: bool
    """Whether a column `_id` gives the entries their IDs, which must be larger than all IDs in the stream. If false,
    the server chooses the IDs. Default: true."""
    nomkstream: bool
    """Whether a write fails if the stream is missing. If false, the stream is created. Default: false."""
    maxlen: int | str
    """Maximum entries in the stream; the oldest are removed."""
    minid: str
    """Smallest ID to keep; entries with smaller IDs are removed."""
    retentionMs: int | str | timedelta
    """Maximum age of entries, by their IDs; older entries are removed."""
    approximate: bool
    """Whether trimming is approximate (`~`), which is cheaper but may keep extra entries. Default: true."""
    refPolicy: Literal["keepref", "delref", "acked"]
    """How trimming treats pending entries (Redis 8.2 and later, the engine). `keepref` leaves them pending, `delref`
    removes them from the groups too, and `acked` trims only entries that every group has read and acknowledged."""
# end of options
# fmt: on


def options(**given: Unpack[Options]) -> dict[str, str]:
    """Return the options of a read or a write in the form that Spark's `options(**...)` accepts.

    Raises an OptionsError, such as UNKNOWN_OPTION or INVALID_OPTION, or OPTION_ELSEWHERE if some options are only for
    reads and others only for writes. An option with the value None is omitted. A dict is converted to JSON, a datetime
    to ISO 8601, and a timedelta to milliseconds.
    """
    made = {parsing.dotted(name): _text(value) for name, value in given.items() if value is not None}
    parsing.check_values(made)
    return made


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value // timedelta(milliseconds=1)}ms"
    return ",".join(value) if isinstance(value, (tuple, list)) else str(value)


# Completion in notebooks and `help` read the signature at run time.
cast("Any", options).__signature__ = inspect.Signature(
    [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind.__forward_arg__)
        for name, kind in Options.__annotations__.items()
    ],
    return_annotation="dict[str, str]",
)
