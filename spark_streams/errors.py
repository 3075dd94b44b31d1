"""The connector's errors: a tree of exceptions, and a table of conditions with an id, a text and advice.

    PystreamsError
    |-- OptionsError        the options are wrong or contradict each other (also a ValueError)
    |-- SchemaError         the schema cannot be read or written
    |-- ServerError         the server cannot be reached, or refused a command
    |   `-- EmbeddedError   the embedded engine could not be started, or cannot be reached
    |-- StreamError         a stream or its consumer group is not what the query needs
    |-- DataError           an entry cannot be represented in the schema's columns
    `-- WriteError          rows could not be written

Except for missing packages (`explained`), every error that a user can act on is created by `fail` or `error` from
the table `CONDITIONS`, which includes the conditions of `streamclient.errors`. docs/reference/errors.md is generated
from this table. No text may contain a password: the text form of an address omits it.

A headline shows the connector's message before any traceback, where a user of Spark looks first. Spark shows an error
of a Python data source as Python prints it: first the causes, then the traceback, and the message last. A cause without
a traceback is printed as one line. So an error that leaves the connector gets such a cause, which repeats its message.
Python prints this cause first and the error itself last. By default, Spark shortens tracebacks and removes causes. A
headline survives this, since `PystreamsError` stores it as an attribute.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, TypeVar

from streamclient.errors import CONDITIONS as OF_CLIENT
from streamclient.errors import LinkError, OptionsError, ServerError, StreamError, WriteError, first_of
from streamwire.errors import Condition, Conditions, PystreamsError

__all__ = [
    "CONDITIONS",
    "Condition",
    "DataError",
    "EmbeddedError",
    "OptionsError",
    "PystreamsError",
    "SchemaError",
    "ServerError",
    "StreamError",
    "WriteError",
    "error",
    "explained",
    "fail",
    "first_of",
    "headed",
]


class SchemaError(PystreamsError):
    pass


class EmbeddedError(ServerError):
    pass


class DataError(PystreamsError):
    pass


_TABLE: dict[str, Condition] = {
    **OF_CLIENT,
    "UNKNOWN_OPTION": Condition(OptionsError, "There is no option '{option}' for {scope}.", "{advice}"),
    "OPTION_ELSEWHERE": Condition(
        OptionsError, "Option '{option}' is for {there}, and cannot be given for {here}.", "Remove it here."
    ),
    "FOREIGN_OPTION": Condition(OptionsError, "'{option}' is an option of {peer}, not of pystreams.", "{instead}"),
    "MISSING_STREAM": Condition(
        OptionsError,
        "No stream is named.",
        "Set the option 'stream'. Reads also accept 'streams' (a list) or 'streamPattern' (a glob). Writes also "
        "accept a column '_stream'. Tables of Spark's catalog (saveAsTable, CREATE TABLE) do not store options: use "
        "save and load, or CREATE TEMPORARY VIEW name USING pystreams OPTIONS (...).",
    ),
    "TABLE_NOT_KEPT": Condition(
        OptionsError,
        "A table of Spark's catalog cannot read a stream: Spark does not store the options of a Python data source's "
        "table.",
        "Use CREATE TEMPORARY VIEW name USING pystreams OPTIONS (...), which takes the same options, or load().",
    ),
    "MISSING_GROUP": Condition(
        OptionsError,
        "Option '{option}' is '{value}', which needs a consumer group, but no group is named.",
        "Set the option 'group'.",
    ),
    "MISSING_URL": Condition(
        OptionsError,
        "No server is named. The embedded engine serves only the driver's machine, but the Spark master is '{master}'.",
        "Set the option 'url', or the driver's environment variable PYSTREAMS_URL, to a server that every machine "
        "can reach. Or use a local master.",
    ),
    "EMBEDDED_NOT_KEPT": Condition(
        OptionsError,
        "No server is named, and {program} cannot use the embedded engine in memory: its entries would be lost when "
        "that process ends.",
        "Set the option 'url' or the environment variable PYSTREAMS_URL to a server, or the option 'embedded.dir' to a "
        "data directory.",
    ),
    "CONNECT_CLIENT": Condition(
        OptionsError,
        "This program is a Spark Connect client, but the embedded engine belongs to the driver, which is the Spark "
        "Connect server.",
        "Set the option 'url' (or the environment variable PYSTREAMS_URL) to a server that this program and Spark can "
        "both reach.",
    ),
    "SPARK_TOO_OLD": Condition(
        OptionsError,
        "Option '{option}' needs Spark 4.2, but this is {version}. Earlier releases do not pass the start of a batch "
        "or the trigger to a data source.",
        "Use Spark 4.2 or later, or remove the option. Before Spark 4.2, each batch reads all new entries.",
    ),
    "UNSUPPORTED_OUTPUT_MODE": Condition(
        OptionsError,
        "A streaming write can only append to a stream: outputMode 'complete' would replace it.",
        "Use outputMode 'append'. To write results that change, use foreachBatch.",
    ),
    "UNSUPPORTED_TYPE": Condition(
        SchemaError,
        "Column '{column}' has the type {type}, which cannot be {done}.",
        "Cast it to string, binary, a number, boolean, date or timestamp. Cast year-month and calendar intervals to "
        "string or to a number of months.",
    ),
    "RESERVED_COLUMN": Condition(
        SchemaError,
        "Column '{column}' has the type {type}, but the connector fills this column with the type {expected}.",
        "Change its type, or remove it from the schema. A field of this name can be read from the map 'fields', and "
        "written under another name.",
    ),
    "DUPLICATE_COLUMN": Condition(
        SchemaError,
        "The rows have more than one column with the name '{column}', but an entry can have only one such field.",
        "Rename or drop one of them, e.g. after a join.",
    ),
    "NO_FIELD_COLUMNS": Condition(
        SchemaError,
        "No column of the rows can become a field of an entry. The columns are: {columns}.",
        "Write at least one column besides the connector's own ('_id', '_stream', '_timestamp', '_ms', '_seq', "
        "'_deliveries').",
    ),
    "EMBEDDED_NOT_STARTED": Condition(
        EmbeddedError,
        "The embedded engine did not start: {reason}.",
        "Read its output in {log}. If its data directory belongs to another application's engine, start one server "
        "for both applications and set the option 'url'.",
    ),
    "EMBEDDED_NO_DIRECTORY": Condition(
        EmbeddedError,
        "The embedded engine has no directory for its socket: {reason}.",
        "Set the driver's environment variable TMPDIR to a writable directory that has free space and is not cleaned "
        "up automatically, and restart the application. Or set the option 'url' to a server.",
    ),
    "EMBEDDED_NO_DATA": Condition(
        EmbeddedError,
        "The embedded engine cannot store its data in {directory}: {reason}.",
        "Set the option embedded.dir, or the environment variable PYSTREAMS_HOME, to a directory that this user can "
        "write to. Or set the option 'url' to a server.",
    ),
    "EMBEDDED_NOT_INSTALLED": Condition(
        EmbeddedError,
        "The embedded engine needs the package '{package}', which {python} does not have.",
        "Install the engine's packages (pip install 'pystreams-spark[engine]'), or set the option 'url' to a server.",
    ),
    "EMBEDDED_OUT_OF_REACH": Condition(
        EmbeddedError,
        "The embedded engine belongs to the driver {driver}, but this task runs elsewhere ({here}).",
        "On a cluster, set the option 'url' to a server that every machine can reach.",
    ),
    "MONITOR_WITHOUT_URL": Condition(
        OptionsError,
        "A StreamMonitor in a Spark Connect client has no url, and the queries' embedded engine runs on the Spark "
        "Connect server.",
        "Give the monitor the url of the queries: StreamMonitor.install(spark, url='redis://...').",
    ),
    "STREAM_MISSING": Condition(
        StreamError,
        "There is no stream {stream} at {address}.",
        "Correct the name. To read several streams, set the option 'streams'. To treat a missing stream as empty, set "
        "failOnMissingStream to false.",
    ),
    "STREAM_LOST": Condition(
        StreamError,
        "The stream '{stream}' at {address} had reached {offset}, but {found}. The stream was deleted or recreated, "
        "or the server lost data.",
        "To continue, set the option failOnDataLoss to false, or start with a new checkpoint. Load an existing "
        "DataFrame again, because it keeps its old plan.",
    ),
    "ENTRIES_LOST": Condition(
        StreamError,
        "The stream '{stream}' at {address} lost {count} after {after}, up to {upto}. They were trimmed or deleted "
        "before they were read.",
        "Keep entries for longer than the query can lag. To continue without them, set the option failOnDataLoss to "
        "false. Load an existing DataFrame again, because it keeps its old plan.",
    ),
    "GROUP_BEHIND": Condition(
        StreamError,
        "The group '{group}' of the stream '{stream}' has the last-delivered ID {position}, but the query's "
        "checkpoint is at {after}. The group has not read the entry {first} between these IDs. The group was moved "
        "(XGROUP SETID), or the server lost data.",
        "To read those entries again, start with a new checkpoint and startingOffsets=group. To continue at the "
        "checkpoint, set the option failOnDataLoss to false. This moves the group forward to {after}.",
    ),
    "GROUP_TAKEN": Condition(
        StreamError,
        "Another query (ID {owner}), or another read in this query, uses the consumer group '{group}' of the stream "
        "'{stream}'.",
        "Give each query its own group. A self-join reads the stream twice: load it once for each side, with another "
        "group. If the other query was killed, its group is free after {seconds} seconds. To take the group over at "
        "once, set the option groupTakeover to true.",
    ),
    "CONSUMERS_TAKEN": Condition(
        StreamError,
        "Another query (ID {owner}) shares the group '{group}' of the stream '{stream}' under the same consumer "
        "names ('{prefix}-...').",
        "Set the option consumer to a different value in each query of the group. If the other query was killed, its "
        "names are free after {seconds} seconds.",
    ),
    "RUN_REPLACED": Condition(
        StreamError,
        "This query (ID {owner}) was started again while it was running. The later run has taken the consumer group "
        "'{group}' of the stream '{stream}'.",
        "Run only one instance of a query. A query with a copied checkpoint counts as the same query: give a second "
        "query its own checkpoint and group.",
    ),
    "GROUP_IN_USE": Condition(
        StreamError,
        "The group '{group}' of the stream '{stream}' was not created by this query: {found}.",
        "Use another group. To share this group with its consumers, set consume to shared. To take the group over, "
        "set the option groupTakeover to true.",
    ),
    "NOTHING_FROM_GROUP": Condition(
        StreamError,
        "The stream '{stream}' has no consumer group '{group}' to start from.",
        "Create the group, or set startingOffsets to a value other than 'group'.",
    ),
    "OFFSET_VERSION": Condition(
        StreamError,
        "The checkpoint's offset has version {version}; this connector reads versions up to {known}.",
        "Use the newer connector that wrote the checkpoint.",
    ),
    "OFFSET_MALFORMED": Condition(
        StreamError,
        "This query cannot read the checkpoint's offset {offset}.",
        "Start with a new checkpoint.",
    ),
    "CHECKPOINT_MODE": Condition(
        StreamError,
        "The checkpoint was written with consume={was}, but this query has consume={now}: its offsets cannot be used.",
        "Set consume to its old value, or start with a new checkpoint and startingOffsets=group.",
    ),
    "CHECKPOINT_GROUP": Condition(
        StreamError,
        "The checkpoint belongs to the consumer group '{was}', but the query shares the group '{now}'.",
        "Set the option group to its old value. To read with another group, start with a new checkpoint.",
    ),
    "CHECKPOINT_DATABASE": Condition(
        StreamError,
        "The checkpoint belongs to database {was} of its server, but {address} is database {now}.",
        "Correct the number at the end of the option url. If the streams were moved, start with a new checkpoint and "
        "set startingOffsets to the old positions.",
    ),
    "CHECKPOINT_STREAMS": Condition(
        StreamError,
        "The checkpoint was written for other streams ({was}). This query reads {now}, with no stream in common.",
        "Correct the stream's name, or start with a new checkpoint. To continue at the old positions under new "
        "names, set startingOffsets in the new query to {positions} with the new names.",
    ),
    "MALFORMED_ENTRY": Condition(
        DataError,
        "The field '{field}' of entry {entry} of '{stream}' has {found}.",
        "Correct the schema, or read with mode PERMISSIVE (null) or DROPMALFORMED.",
    ),
    "FIELDS_MISSING": Condition(
        DataError,
        "There is no value for {columns} in any of the {rows} rows of {streams} that this task has read. The entries "
        "have the fields {fields}.",
        "Correct the column's name (the nearest field: {nearest}). The option requireFields makes this an error or a "
        "warning.",
    ),
    "FIELDS_UNREADABLE": Condition(
        DataError,
        "The entries of {streams} have the fields {columns}, but in all {rows} rows that this task has read, their "
        "values are empty or do not fit the column's type.",
        "Correct the column's type. To see the values, read the column as a string. The option requireFields makes "
        "this an error or a warning.",
    ),
    "NULL_IN_COLUMN": Condition(
        DataError,
        "Entry {entry} of '{stream}' has no value for column '{column}', which is NOT NULL in the schema.",
        "Remove NOT NULL from the schema: an entry of a stream may have any fields.",
    ),
    "CANNOT_INFER_SCHEMA": Condition(
        SchemaError,
        "No schema can be inferred from {streams}: there are no entries.",
        "Give a schema, or read a stream that has entries.",
    ),
    "NO_FIELDS": Condition(
        WriteError,
        "Row {row} of the task has only null values, but an entry needs at least one field.",
        "Filter out such rows, or set the option 'nullValue'.",
    ),
    "NO_STREAM_FOR_ROW": Condition(
        WriteError,
        "Row {row} of the task has null in the column '_stream'.",
        "Fill the column, or set the option 'stream'.",
    ),
    "REPLAY_DIFFERS": Condition(
        WriteError,
        "Partition {partition} of batch {batch} was already written, completely or in part ({rows} rows in the "
        "stream '{stream}'). Now it has different rows or a different order. This attempt wrote nothing.",
        "Restart the query unchanged, with the settings of the previous run (spark.default.parallelism, "
        "spark.sql.shuffle.partitions, adaptive execution, minPartitions). If it was fixed, or its plan is not "
        "deterministic (then set writeMode=staged), stop it, and take these rows back before its next start: {command}",
    ),
    "FENCE_VERSION": Condition(
        WriteError,
        "An earlier version of the connector wrote {rows} rows of batch {batch} to the stream '{stream}', and this "
        "version cannot compare them.",
        "Let the earlier version finish the batch. To write this batch in any case, stop the query, and stop "
        "counting these rows: {command}",
    ),
    "ATTEMPT_REPLACED": Condition(
        WriteError,
        "Another attempt of batch {batch} writes to the stream '{stream}', so this attempt may no longer write.",
        "No action is needed if the query was restarted meanwhile. Otherwise make sure that it runs only once.",
    ),
    "STAGED_LOST": Condition(
        WriteError,
        "Rows of batch {batch} that were staged for the stream '{stream}' under the key '{key}' are gone. They "
        "expired, or the server lost or evicted them.",
        "Restart the query. After a failure, restart it within a day, and set maxmemory-policy to noeviction.",
    ),
    "FENCE_AHEAD": Condition(
        WriteError,
        "This is batch {batch}, but the stream '{stream}' already has rows of batch {found} of this query. The "
        "checkpoint is too old, or another run of the query uses a copy of it.",
        "Use the newest checkpoint. To write this batch in any case, delete the key '{fence}'.",
    ),
    "BATCH_COMMITTED": Condition(
        WriteError,
        "This is batch {batch}, but batch {found} of this query was already committed. The checkpoint is too old, or "
        "another run of the query uses a copy of it.",
        "Use the newest checkpoint. To write this batch in any case, delete the key '{ledger}' and the keys named in "
        "any further errors.",
    ),
    "FENCE_BEHIND": Condition(
        WriteError,
        "The server lost rows of the stream '{stream}': the task's record counts {rows} rows, but the server had "
        "confirmed {known}.",
        "Run the task again to write the missing rows. To prevent lost writes, set appendfsync to always on the "
        "server, or use replicas and the option waitReplicas. The record is the key '{fence}'.",
    ),
    "NOT_REPLICATED": Condition(
        WriteError,
        "{found} replicas of {address} have confirmed the rows, but waitReplicas is {wanted}. The master has accepted "
        "the rows.",
        "Check the replicas, or increase waitTimeoutMs.",
    ),
    "RECORDS_EVICTED": Condition(
        ServerError,
        "{address} may evict the records that prevent rows from being written twice: its maxmemory-policy is "
        "'{policy}'.",
        "Set maxmemory-policy noeviction there, or write to another server. To accept duplicate rows, set the option "
        "allowEviction. With a volatile policy, fenceRetentionMs=0 prevents the eviction of a streaming query's "
        "records.",
    ),
    "OVERWRITE_UNREAD": Condition(
        WriteError,
        "Overwriting '{stream}' at {address} would remove entries that consumer groups have not read or "
        "acknowledged: {groups}.",
        "Wait until the groups have acknowledged these entries, or set the option overwriteUnread to true.",
    ),
    "NO_BATCH_IDENTITY": Condition(
        WriteError,
        "Spark does not pass the query and the batch to this write, so a repeated write could not be recognised.",
        "In foreachBatch with Spark Connect, set the option writeId to a name with the batch's number, such as "
        "f'orders-{{number}}', which no other write or query uses. Or set writeMode to append.",
    ),
}
CONDITIONS = Conditions(_TABLE)
error, fail = CONDITIONS.error, CONDITIONS.fail


Method = TypeVar("Method", bound=Callable[..., Any])

_BROKEN = (LinkError, ConnectionError)


class Headline(Exception):  # noqa: N818 - it is a line of text
    """An error's message, to be printed first. Python shows it as `pystreams: message`."""


Headline.__module__, Headline.__qualname__ = "builtins", "pystreams"


def headed(method: Method) -> Method:
    """Return the method with headlines on its errors, including errors that a generator raises while it is iterated."""

    @functools.wraps(method)
    def called(*args: Any, **named: Any) -> Any:
        try:
            return method(*args, **named)
        except (PystreamsError, *_BROKEN) as problem:
            _raise(problem)

    @functools.wraps(method)
    def iterated(*args: Any, **named: Any) -> Iterator[Any]:
        try:
            yield from method(*args, **named)
        except (PystreamsError, *_BROKEN) as problem:
            _raise(problem)

    return iterated if inspect.isgeneratorfunction(method) else called  # type: ignore[return-value]


def _raise(problem: BaseException) -> None:
    if not isinstance(problem, PystreamsError):
        problem = error("CONNECTION_BROKEN", reason=f"{problem}".rstrip(".") or type(problem).__name__)
    problem.headline = Headline(str(problem))
    raise problem


def explained(missing: ImportError) -> ImportError:
    """Return the error to raise in place of `missing`.

    It names the missing package, the Python, and what to install.
    """
    if not isinstance(missing, ModuleNotFoundError) or missing.name == "pyspark.sql.datasource":
        version = getattr(sys.modules.get("pyspark"), "__version__", "?")
        return ImportError(
            f"The Spark data source pystreams needs Spark 4.0 or later, but {sys.executable} has pyspark {version}.",
            name=missing.name,
        )
    package = (missing.name or "").partition(".")[0]
    extra = "spark" if package == "py4j" or find_spec("pyspark") is None else "engine"
    beside = " If Spark is already installed for another Python, use that Python instead." if extra == "spark" else ""
    return ModuleNotFoundError(
        f"The Spark data source pystreams needs the package '{package}', which {sys.executable} does not have. "
        f"Install it: pip install 'pystreams-spark[{extra}]'.{beside}",
        name=missing.name,
    )
