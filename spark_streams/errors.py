"""The connector's errors: a tree of exceptions, and a table of conditions with an id, a text and advice.

    PystreamsError
    |-- OptionsError        the options are wrong or contradict each other (also a ValueError)
    |-- SchemaError         the schema cannot be read or written
    |-- ServerError         the server cannot be reached, or refused a command
    |   `-- EmbeddedError   the embedded engine could not be started, or cannot be reached
    |-- StreamError         a stream or its consumer group is not what the query needs
    |-- DataError           an entry cannot be represented in the schema's columns
    `-- WriteError          rows could not be written

Every error that a user can act on is raised through `fail`, from the table `CONDITIONS`. Its id never changes; its text
says what happened and where, its advice what to do next. docs/reference/errors.md is generated from the table. No text
may hold a password: addresses show themselves without one. One file above 400 lines: it is one table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

_NAMED = 3  # streams that an error names besides the first one


class PystreamsError(Exception):
    """Base of all errors of the connector. `condition` is the error's id; `parameters` fill the braces of its text.

    `headline`: what Python prints before the error, in place of its cause (`spark_streams.headline`).
    """

    def __init__(self, message: str, condition: str = "", parameters: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.condition = condition
        self.parameters = parameters or {}
        self.headline: BaseException | None = None

    @property
    def __cause__(self) -> BaseException | None:
        return self.headline or super().__cause__

    @__cause__.setter
    def __cause__(self, cause: BaseException | None) -> None:  # Spark removes causes when it shortens a traceback
        vars(BaseException)["__cause__"].__set__(self, cause)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.condition, self.parameters)


class OptionsError(PystreamsError, ValueError):
    pass


class SchemaError(PystreamsError):
    pass


class ServerError(PystreamsError):
    pass


class EmbeddedError(ServerError):
    pass


class StreamError(PystreamsError):
    pass


class DataError(PystreamsError):
    pass


class WriteError(PystreamsError):
    pass


@dataclass(frozen=True)
class Condition:
    """One condition: the exception to raise, its text with parameters in braces, and what to do about it."""

    error: type[PystreamsError]
    text: str
    advice: str


CONDITIONS: dict[str, Condition] = {
    "UNKNOWN_OPTION": Condition(
        OptionsError, "There is no option '{option}' for {scope}.", "The nearest known name is '{nearest}'."
    ),
    "OPTION_ELSEWHERE": Condition(
        OptionsError, "Option '{option}' is for {there}, and cannot be given for {here}.", "Remove it here."
    ),
    "FOREIGN_OPTION": Condition(OptionsError, "'{option}' is an option of {peer}, not of pystreams.", "{instead}"),
    "INVALID_OPTION": Condition(OptionsError, "Option '{option}' is '{value}', but {expected}.", "Correct the option."),
    "CONFLICTING_OPTIONS": Condition(
        OptionsError, "Options '{option}' and '{other}' exclude each other.", "Set only one of the two."
    ),
    "MISSING_STREAM": Condition(
        OptionsError,
        "No stream is named.",
        "Set the option 'stream'. Reads also take 'streams' (a list) or 'streamPattern' (a glob), writes a column "
        "'_stream'. Tables of Spark's catalog (saveAsTable, CREATE TABLE) do not keep options: use save and load, or "
        "CREATE TEMPORARY VIEW.",
    ),
    "MISSING_GROUP": Condition(
        OptionsError,
        "Option '{option}' is '{value}', which needs a consumer group, but no group is named.",
        "Set the option 'group'.",
    ),
    "MISSING_URL": Condition(
        OptionsError,
        "The embedded engine serves a single machine, but the Spark master is '{master}'.",
        "Set the option 'url' (or the environment variable PYSTREAMS_URL) to a server that every machine can reach.",
    ),
    "CONNECT_CLIENT": Condition(
        OptionsError,
        "This program is a client of Spark Connect: the embedded engine belongs to the driver, which is the server's "
        "process.",
        "Set the option 'url' (or the environment variable PYSTREAMS_URL) to a server that this program and Spark can "
        "both reach.",
    ),
    "SPARK_TOO_OLD": Condition(
        OptionsError,
        "Option '{option}' needs Spark 4.2, and this is {version}: earlier ones do not tell a Python source where a "
        "batch begins, nor which trigger it has.",
        "Remove it, or use Spark 4.2 or later. Each batch is all that is there.",
    ),
    "UNSUPPORTED_OUTPUT_MODE": Condition(
        OptionsError,
        "A streaming write can only append to a stream: outputMode 'complete' would replace it.",
        "Use outputMode 'append'. For results that change, write each batch with foreachBatch.",
    ),
    "UNSUPPORTED_TYPE": Condition(
        SchemaError,
        "Column '{column}' has the type {type}, which cannot be {done}.",
        "Cast it to string, binary, a number, boolean, date or timestamp. Spark passes year-month and calendar "
        "intervals to no Python data source: cast them to string, or to a number of months.",
    ),
    "RESERVED_COLUMN": Condition(
        SchemaError,
        "Column '{column}' has the type {type}, but the connector fills it and its type is {expected}.",
        "Change its type, or remove it from the schema.",
    ),
    "NO_FIELD_COLUMNS": Condition(
        SchemaError,
        "No column of the rows can become a field of an entry; their columns are: {columns}.",
        "Write at least one column that is none of the connector's own ('_id', '_stream', '_timestamp', "
        "'_deliveries').",
    ),
    "SERVER_UNREACHABLE": Condition(
        ServerError,
        "Cannot connect to {address}: {reason}.",
        "Check the option 'url' (host and port), and that the server is running there.",
    ),
    "SERVER_REFUSED": Condition(
        ServerError,
        "{address} refused {command}: {reason}{meaning}.",
        "See what the server says, and its log. The option 'url' names it.",
    ),
    "LOGIN_REFUSED": Condition(
        ServerError,
        "{address} refused the login with {given}: {reason}.",
        "Correct the options 'user' and 'password', passwordFile or credentialProvider (or what the URL has, or the "
        "driver's environment variables PYSTREAMS_USER and PYSTREAMS_PASSWORD). Sentinels have sentinelUser and "
        "sentinelPassword.",
    ),
    "NO_REPLICAS_TOLD": Condition(
        ServerError,
        "The option readFrom asks for replicas, but nobody at {address} says which there are: {reason}",
        "Allow the user to do INFO and ROLE (at Sentinels SENTINEL REPLICAS), or name the cluster or the Sentinels in "
        "the option url, or set readFrom to primary.",
    ),
    "CREDENTIALS_MISSING": Condition(
        ServerError,
        "User and password were to come from {source}, which gave none on {host}: {reason}.",
        "Correct the option passwordFile or credentialProvider. The file, and the module with its packages, must be on "
        "every machine that runs the driver or tasks.",
    ),
    "NOT_PERMITTED": Condition(
        ServerError,
        "{address} does not allow the user '{user}' to do {command}: {reason}.",
        "All that this query needs: ACL SETUSER {user} {needs} "
        "('What an ACL user needs' in docs/guides/connecting.md).",
    ),
    "UNKNOWN_COMMAND": Condition(
        ServerError,
        "{address} does not know the command {command}: {reason}.",
        "See that the option 'url' names a Redis 5 or later, a Valkey or the engine. For Sentinels it must begin with "
        "redis+sentinel://.",
    ),
    "NOT_A_CLUSTER": Condition(
        ServerError,
        "{address} names a cluster, but the server there is none: {reason}.",
        "Set the option 'url' to {url}.",
    ),
    "CLUSTER_NODE": Condition(
        ServerError,
        "{address} names a single server, but it is a node of a cluster: {reason}.",
        "Set the option 'url' to {url}.",
    ),
    "NOT_A_SENTINEL": Condition(
        ServerError,
        "{address} names Sentinels, but the server there is none: {reason}.",
        "Set the option 'url' to {url} to connect to that server, or name the Sentinels' port (26379 by default).",
    ),
    "TLS_NEEDED": Condition(
        ServerError,
        "{address} names a server without TLS, but the server there speaks TLS only.",
        "Set the option 'url' to {url}.",
    ),
    "TLS_NOT_SPOKEN": Condition(
        ServerError,
        "{address} names a server with TLS, but the server there speaks without it.",
        "Set the option 'url' to {url}, or to the server's TLS port.",
    ),
    "EMBEDDED_NOT_STARTED": Condition(
        EmbeddedError,
        "The embedded engine did not start: {reason}.",
        "Read its output in {log}. Where its data directory belongs to another application's engine, start one server "
        "for both and set the option 'url'.",
    ),
    "EMBEDDED_NO_DIRECTORY": Condition(
        EmbeddedError,
        "The embedded engine has no directory for its socket: {reason}.",
        "Set the driver's environment variable TMPDIR to a directory with room, where its user may write and nobody "
        "cleans up, and start the application again; or set the option 'url' to a server.",
    ),
    "EMBEDDED_NO_DATA": Condition(
        EmbeddedError,
        "The embedded engine cannot keep its data in {directory}: {reason}.",
        "Set the option embedded.dir, or the environment variable PYSTREAMS_HOME, to a directory where this user may "
        "write, or the option 'url' to a server.",
    ),
    "EMBEDDED_NOT_INSTALLED": Condition(
        EmbeddedError,
        "The embedded engine needs the package '{package}', which {python} does not have.",
        "Install it (pip install {package}), or set the option 'url' to a server.",
    ),
    "EMBEDDED_OUT_OF_REACH": Condition(
        EmbeddedError,
        "The embedded engine belongs to the driver {driver}, but this task runs elsewhere ({here}).",
        "On a cluster, set the option 'url' to a server that every machine can reach.",
    ),
    "MONITOR_WITHOUT_URL": Condition(
        OptionsError,
        "A StreamMonitor runs in the client of Spark Connect, but it was given no url, and the embedded engine of the "
        "queries is in the server's process.",
        "Give the monitor the url that the queries have: StreamMonitor.install(spark, url='redis://...').",
    ),
    "CONNECTION_BROKEN": Condition(
        ServerError,
        "The connection to the server broke in the middle of a command that may have been executed: {reason}.",
        "See that the server is running, and run the query again. Set the option retryTimeoutMs longer than a failover "
        "takes.",
    ),
    "NOT_A_STREAM": Condition(
        StreamError, "The key '{stream}' at {address} is not a stream.", "Name a stream, or delete the key."
    ),
    "STREAM_MISSING": Condition(
        StreamError,
        "There is no stream {stream} at {address}.",
        "Correct the name (for several, set the option 'streams'). If it may be missing, set failOnMissingStream to "
        "false: then it has no rows. The embedded engine holds the streams of one application: to read another's, set "
        "the option 'url' to a server that both use.",
    ),
    "STREAM_LOST": Condition(
        StreamError,
        "The stream '{stream}' at {address} had reached {offset}, but {found}: it was deleted or created again, or the "
        "server lost data.",
        "To continue with what is there now, set the option failOnDataLoss to false, or start with a new checkpoint. A "
        "DataFrame keeps its plan: load it again.",
    ),
    "ENTRIES_LOST": Condition(
        StreamError,
        "The stream '{stream}' at {address} lost {count} after {after}, up to {upto}, before they were read: they were "
        "trimmed or deleted.",
        "Keep entries for longer than the query may lag. To continue without them, set the option failOnDataLoss to "
        "false. A DataFrame keeps its plan: load it again to read what is there now.",
    ),
    "GROUP_BEHIND": Condition(
        StreamError,
        "The group '{group}' of the stream '{stream}' has the last-delivered ID {position}, but the query's checkpoint "
        "is at {after} and the group has not read {first} in between: the group was moved (XGROUP SETID), or the "
        "server lost data.",
        "If it was moved to read entries again, start with a new checkpoint and startingOffsets=group: a query with a "
        "checkpoint begins where that is. To go on at the checkpoint, set the option failOnDataLoss to false: that "
        "moves the group forward to {after}.",
    ),
    "GROUP_TAKEN": Condition(
        StreamError,
        "Another query (ID {owner}) reads the stream '{stream}' with the consumer group '{group}'.",
        "Give each query a group of its own. If the other one was killed, wait: its group is free after {seconds} "
        "seconds. To take the group from it at once, set the option groupTakeover to true.",
    ),
    "CONSUMERS_TAKEN": Condition(
        StreamError,
        "Another query (ID {owner}) shares the group '{group}' of the stream '{stream}' under the same consumer "
        "names ('{prefix}-...').",
        "Give each query of the group another value of the option consumer. If the other one was killed, wait: its "
        "names are free after {seconds} seconds.",
    ),
    "RUN_REPLACED": Condition(
        StreamError,
        "This query (ID {owner}) was started once more while it ran: the later run has its consumer group '{group}' "
        "of the stream '{stream}'.",
        "Run a query once. A copy of its checkpoint is the same query: give a second one a checkpoint and a group of "
        "its own.",
    ),
    "GROUP_IN_USE": Condition(
        StreamError,
        "The group '{group}' of the stream '{stream}' was not made by this query: {found}.",
        "Use another group. To share this one with its consumers, set consume to shared. To take it over, set the "
        "option groupTakeover to true.",
    ),
    "GROUP_LOST": Condition(
        StreamError,
        "The stream '{stream}' at {address} no longer has the consumer group '{group}'.",
        "Create the group at the ID where reading should continue. Or set the option failOnDataLoss to false: then it "
        "is created at the stream's first entry.",
    ),
    "STREAM_NAME_NOT_TEXT": Condition(
        StreamError,
        "The pattern '{pattern}' matches the stream '{stream}', whose name is not UTF-8.",
        "Use a pattern that does not match it, or rename the stream.",
    ),
    "NOTHING_FROM_GROUP": Condition(
        StreamError,
        "The stream '{stream}' has no consumer group '{group}' to start from.",
        "Create the group, or set startingOffsets to something else than 'group'.",
    ),
    "NO_ENTRY_AT_TIME": Condition(
        StreamError,
        "The stream '{stream}' ends at {last}: it has no entry at or after {time}, where the query is to start.",
        "Set an earlier startingTimestamp, or startingOffsetsByTimestampStrategy to wait or latest.",
    ),
    "OFFSET_VERSION": Condition(
        StreamError,
        "The checkpoint's offset has version {version}; this connector reads versions up to {known}.",
        "Use the newer connector that wrote the checkpoint.",
    ),
    "OFFSET_MALFORMED": Condition(
        StreamError,
        "The checkpoint's offset {offset} was not written by this kind of query.",
        "Start with a new checkpoint.",
    ),
    "CHECKPOINT_MODE": Condition(
        StreamError,
        "The checkpoint was written by a query with consume={was}, but this one has consume={now}: its offsets mean "
        "nothing here.",
        "Set consume back. To change it, start with a new checkpoint and startingOffsets=group: it begins where the "
        "group is.",
    ),
    "CHECKPOINT_GROUP": Condition(
        StreamError,
        "The checkpoint belongs to the consumer group '{was}', but the query shares the group '{now}'.",
        "Set the option group back. To read with another group, start with a new checkpoint.",
    ),
    "CHECKPOINT_DATABASE": Condition(
        StreamError,
        "The checkpoint belongs to database {was} of its server, but {address} is database {now}.",
        "Correct the number at the end of the option url. If the streams were moved there, start with a new checkpoint "
        "and the old positions as startingOffsets.",
    ),
    "CHECKPOINT_STREAMS": Condition(
        StreamError,
        "The checkpoint belongs to other streams ({was}) than the query reads now ({now}), with none in common.",
        "Correct the stream's name. If other streams are meant, start with a new checkpoint. To go on at the old "
        "positions under new names, set startingOffsets there, after the model of {positions}.",
    ),
    "MALFORMED_ENTRY": Condition(
        DataError,
        "Entry {entry} of '{stream}' has in its field '{field}' the text '{value}', which does not fit the type {type} "
        "of column '{column}'.",
        "Correct the schema, or read with mode PERMISSIVE (null) or DROPMALFORMED.",
    ),
    "FIELDS_MISSING": Condition(
        DataError,
        "No value for {columns} in any of the {rows} rows of {streams} that this task has read. The entries have the "
        "fields {fields}.",
        "Correct the column's name (the nearest field: {nearest}) or its type. The option requireFields says whether "
        "this is an error or a warning.",
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
    "FIELD_NAME_NOT_TEXT": Condition(
        DataError,
        "Entry {entry} of '{stream}' has the field name '{field}', which is not UTF-8.",
        "Read with mode PERMISSIVE (without that field) or DROPMALFORMED. To have the bytes, set fieldsType=binary, or "
        "give a schema with 'fields map<binary,binary>'.",
    ),
    "FIELD_NOT_TEXT": Condition(
        DataError,
        "Entry {entry} of '{stream}' has in its field '{field}' bytes that are not UTF-8, so no text for 'fields'.",
        "Read with mode PERMISSIVE (null for that value) or DROPMALFORMED. To have the bytes, set fieldsType=binary, "
        "or give a schema with 'fields map<string,binary>'.",
    ),
    "NO_FIELDS": Condition(
        WriteError,
        "Row {row} of the task has only nulls, but an entry needs at least one field.",
        "Filter out such rows, or set the option 'nullValue'.",
    ),
    "NO_STREAM_FOR_ROW": Condition(
        WriteError,
        "Row {row} of the task has null in the column '_stream'.",
        "Fill the column, or set the option 'stream'.",
    ),
    "ROW_REFUSED": Condition(
        WriteError,
        "Row {row} of the task was refused by {address}: {reason}.",
        "The rows of earlier chunks are written. With writeMode=append a retry of the task writes them again.",
    ),
    "REPLAY_DIFFERS": Condition(
        WriteError,
        "Partition {partition} of batch {batch} was written before, completely or in part ({rows} rows in the stream "
        "'{stream}'), and now has other rows or another order. Nothing was written to this stream.",
        "The query must give the same rows again, in the same partitions. So restart it with the settings of the run "
        "before (spark.default.parallelism, spark.sql.shuffle.partitions, adaptive execution, minPartitions) and "
        "unchanged. Where a plan cannot repeat itself, write with writeMode=staged from the start. To accept both the "
        "old and the new rows, delete the key '{fence}'.",
    ),
    "FENCE_VERSION": Condition(
        WriteError,
        "An earlier version of the connector wrote {rows} rows of batch {batch} to the stream '{stream}', and this one "
        "cannot compare them.",
        "Let the earlier version finish the batch. To write it again in any case, delete the key '{fence}'.",
    ),
    "ATTEMPT_REPLACED": Condition(
        WriteError,
        "Another attempt of batch {batch} writes to the stream '{stream}': this one has lost the right to.",
        "Nothing is to be done if the query was restarted meanwhile. Otherwise see that it runs only once.",
    ),
    "STAGED_LOST": Condition(
        WriteError,
        "Rows of batch {batch} that were staged for the stream '{stream}' are gone (the key '{key}'): they expired, or "
        "the server lost or evicted them.",
        "Restart the query within a day, and let the server evict no keys that expire.",
    ),
    "FENCE_AHEAD": Condition(
        WriteError,
        "This is batch {batch}, but the stream '{stream}' already has rows of batch {found} of this query: the "
        "checkpoint is older than what was written, or another run of the query uses a copy of it.",
        "Use the newest checkpoint. To write this batch in any case, delete the key '{fence}'.",
    ),
    "BATCH_COMMITTED": Condition(
        WriteError,
        "This is batch {batch}, but batch {found} of this query was committed already: the checkpoint is older than "
        "what was written, or another run of the query uses a copy of it.",
        "Use the newest checkpoint. To write this batch in any case, delete the key '{ledger}', and the keys that "
        "further errors name.",
    ),
    "FENCE_BEHIND": Condition(
        WriteError,
        "The server lost rows of the stream '{stream}': its record has {rows} rows of this task, but {known} were "
        "confirmed.",
        "Run the task again: it writes the missing rows. A server that must not lose writes needs appendfsync always; "
        "with replicas, set the option waitReplicas. The record is the key '{fence}'.",
    ),
    "WRITE_CONTENDED": Condition(
        WriteError,
        "{address} did not accept the rows within retryTimeoutMs: another client keeps changing the same records or "
        "streams, or the server keeps refusing for the moment.",
        "Check that the query runs only once and that the cluster is complete, or set retryTimeoutMs higher.",
    ),
    "NOT_REPLICATED": Condition(
        WriteError,
        "{found} replicas of {address} have confirmed the rows, but waitReplicas is {wanted}. The master has accepted "
        "the rows.",
        "Check the replicas, or set waitTimeoutMs higher.",
    ),
    "NO_REF_POLICY": Condition(
        ServerError,
        "{address} does not support reference policies, so refPolicy cannot be '{policy}'. Nothing was written.",
        "Remove the option, or use Redis 8.2 or later, or the engine.",
    ),
    "RECORDS_EVICTED": Condition(
        ServerError,
        "{address} may evict the records that keep repeated rows out: its maxmemory-policy is '{policy}'.",
        "Set maxmemory-policy noeviction there, or write to another server. To go on at the risk of rows that are "
        "written twice, set the option allowEviction; with a volatile policy fenceRetentionMs=0 keeps the records of "
        "streaming queries.",
    ),
    "STREAM_EXISTS": Condition(
        WriteError,
        "The stream '{stream}' at {address} exists, and saveMode is 'error'.",
        "Write to another stream, or remove saveMode to append.",
    ),
    "NO_BATCH_IDENTITY": Condition(
        WriteError,
        "Spark does not tell this task its query and batch, so a repeated write could not be recognized.",
        "Set the option writeMode to append.",
    ),
}


def fail(condition: str, **parameters: object) -> NoReturn:
    """Raise the error of this condition. The parameters fill the braces of its text and advice."""
    raise error(condition, **parameters)


def error(condition: str, **parameters: object) -> PystreamsError:
    """The error of this condition, for `raise ... from`."""
    entry = CONDITIONS[condition]
    texts = {name: str(value) for name, value in parameters.items()}
    message = f"[{condition}] {entry.text.format(**texts)} {entry.advice.format(**texts)}"
    return entry.error(message, condition, texts)


def first_of(problems: Mapping[str, PystreamsError]) -> PystreamsError:
    """The first of these errors, each of which is about a stream; with several it says how many, and names some."""
    first, *others = problems.values()
    if not others:
        return first
    names = [f"'{stream}'" for stream in list(problems)[1 : 1 + _NAMED]]
    more = "one more stream" if len(others) == 1 else f"{len(others)} more streams"
    etc = ", ..." if len(others) > _NAMED else ""
    message = f"{first} There is such an error in {more}: {', '.join(names)}{etc}"
    return type(first)(message, first.condition, first.parameters)
