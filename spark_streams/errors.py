"""What can go wrong, as a tree of exceptions whose errors each have an id, parameters and advice.

    PystreamsError
    |-- OptionsError        the options say something that cannot be (also a ValueError)
    |-- SchemaError         the schema cannot be served or written
    |-- ServerError         the server cannot be reached, or refused a command
    |   `-- EmbeddedError   the embedded engine could not be started, or is out of reach
    |-- StreamError         a stream or its consumer group is not what the query needs it to be
    |-- DataError           what was read or is to be written cannot be represented
    `-- WriteError          the server refused a row

Every error that a user can act on is raised through `fail`, from the table `CONDITIONS`: its id is stable, its text
says what happened and where, and the advice what to do next. The documents' table of error conditions is made from
it. Only this module holds such texts. No text may hold a password: addresses show themselves redacted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn


class PystreamsError(Exception):
    """Base of all errors of the connector. `condition` is the error's id, `parameters` what it speaks of."""

    def __init__(self, message: str, condition: str = "", parameters: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.condition = condition
        self.parameters = parameters or {}

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
    """One error condition: the exception it raises, its text, with parameters in braces, and what to do about it."""

    error: type[PystreamsError]
    text: str
    advice: str


CONDITIONS: dict[str, Condition] = {
    "UNKNOWN_OPTION": Condition(
        OptionsError, "There is no option '{option}' for {scope}.", "The nearest known name is '{nearest}'."
    ),
    "INVALID_OPTION": Condition(OptionsError, "Option '{option}' is '{value}', but {expected}.", "Correct the option."),
    "CONFLICTING_OPTIONS": Condition(
        OptionsError, "Options '{option}' and '{other}' exclude each other.", "Give one of the two."
    ),
    "MISSING_STREAM": Condition(
        OptionsError,
        "No stream is named.",
        "Set the option 'stream'; reading, 'streams' takes a comma list and 'streamPattern' a glob; writing, a column "
        "'_stream' will do.",
    ),
    "MISSING_GROUP": Condition(
        OptionsError, "{option} is '{value}', but no group is named.", "Set the option 'group'."
    ),
    "MISSING_URL": Condition(
        OptionsError,
        "The embedded engine serves one machine, but the Spark master is '{master}'.",
        "Set the option 'url' (or the environment variable PYSTREAMS_URL) to a server that every machine reaches.",
    ),
    "UNSUPPORTED_OUTPUT_MODE": Condition(
        OptionsError,
        "A stream can only be appended to, not overwritten.",
        "Use outputMode 'append', or foreachBatch for results that change.",
    ),
    "UNSUPPORTED_TYPE": Condition(
        SchemaError,
        "Column '{column}' has the type {type}, which cannot be {done}.",
        "Cast it to string, binary, a number, boolean, date or timestamp.",
    ),
    "RESERVED_COLUMN": Condition(
        SchemaError,
        "Column '{column}' has the type {type}, but it is always {expected}.",
        "Change its type, or leave it out of the schema.",
    ),
    "NO_FIELD_COLUMNS": Condition(
        SchemaError,
        "The rows have no column that could become a field: {columns}.",
        "Write at least one column whose name does not belong to the connector.",
    ),
    "SERVER_UNREACHABLE": Condition(
        ServerError, "No connection to {address}: {reason}.", "Check the option 'url', and that the server runs there."
    ),
    "SERVER_REFUSED": Condition(
        ServerError, "{address} refused {command}: {reason}.", "Check the user's rights and the server's state."
    ),
    "EMBEDDED_NOT_STARTED": Condition(
        EmbeddedError, "The embedded engine did not start: {reason}.", "Its output is in {log}."
    ),
    "EMBEDDED_NOT_INSTALLED": Condition(
        EmbeddedError,
        "The embedded engine needs the package '{package}', which {python} does not have.",
        "Install it (pip install {package}), or set the option 'url' to a server.",
    ),
    "EMBEDDED_OUT_OF_REACH": Condition(
        EmbeddedError,
        "The embedded engine belongs to the driver {driver}; this task runs elsewhere ({here}).",
        "On a cluster, set the option 'url' to a server that every machine reaches.",
    ),
    "NOT_A_STREAM": Condition(
        StreamError, "The key '{stream}' of {address} is not a stream.", "Name a stream, or remove the key."
    ),
    "STREAM_LOST": Condition(
        StreamError,
        "The stream '{stream}' of {address} was read up to {offset}, but {found}: it was deleted, or data was lost.",
        "To go on with what is there now, set the option failOnDataLoss to false, or start with a new checkpoint.",
    ),
    "ENTRIES_LOST": Condition(
        StreamError,
        "The stream '{stream}' of {address} has lost {count} behind {after} and up to {upto} before they were read: "
        "they were trimmed or deleted.",
        "Keep entries for longer than the query may lag. To go on without them, set the option failOnDataLoss to "
        "false.",
    ),
    "GROUP_BEHIND": Condition(
        StreamError,
        "The group '{group}' of the stream '{stream}' has its last-delivered ID at {position}, before {after}, where "
        "the query's checkpoint is: the server has lost data, or somebody has moved the group.",
        "To move the group to the checkpoint and go on, set the option failOnDataLoss to false.",
    ),
    "GROUP_LOST": Condition(
        StreamError,
        "The stream '{stream}' of {address} has no consumer group '{group}' any more.",
        "Create the group where reading is to go on; or set the option failOnDataLoss to false, and it is made at "
        "the stream's first entry.",
    ),
    "STREAM_NAME_NOT_TEXT": Condition(
        StreamError,
        "The pattern '{pattern}' finds the stream '{stream}', whose name is not UTF-8.",
        "Use a pattern that leaves it out, or rename the stream.",
    ),
    "NOTHING_FROM_GROUP": Condition(
        StreamError,
        "The stream '{stream}' has no consumer group '{group}' to start from.",
        "Create the group, or give another startingOffsets.",
    ),
    "OFFSET_VERSION": Condition(
        StreamError,
        "The checkpoint's offset has the version {version}; this connector reads versions up to {known}.",
        "Use the newer connector that wrote the checkpoint.",
    ),
    "OFFSET_MALFORMED": Condition(
        StreamError, "The checkpoint's offset {offset} is not one of this source.", "Start with a new checkpoint."
    ),
    "MALFORMED_ENTRY": Condition(
        DataError,
        "The entry {entry} of '{stream}' has in its field '{field}' the text '{value}', which is no {type}, as the "
        "column '{column}' wants it.",
        "Correct the schema; or read with another mode: PERMISSIVE (null) or DROPMALFORMED.",
    ),
    "NULL_IN_COLUMN": Condition(
        DataError,
        "The entry {entry} of '{stream}' has no value for the column '{column}', which the schema says is never null.",
        "Leave NOT NULL out of the schema: a stream promises no fields.",
    ),
    "CANNOT_INFER_SCHEMA": Condition(
        SchemaError,
        "There is no entry in {streams} whose fields could say what the schema is.",
        "Give a schema, or read a stream that has entries.",
    ),
    "FIELD_NAME_NOT_TEXT": Condition(
        DataError,
        "An entry of '{stream}' at or after {entry} has a field name that is not UTF-8.",
        "Read the fields as binary: give a schema with 'fields map<binary,binary>'.",
    ),
    "NO_FIELDS": Condition(
        WriteError,
        "Row {row} of the task's rows has no field that is not null, and an entry needs one.",
        "Filter such rows out, or give a column a value.",
    ),
    "NO_STREAM_FOR_ROW": Condition(
        WriteError,
        "Row {row} of the task's rows has a null in '_stream'.",
        "Name the stream, or set the option 'stream'.",
    ),
    "ROW_REFUSED": Condition(
        WriteError,
        "Row {row} of the task's rows was refused by {address}: {reason}",
        "Rows of chunks before it are written; with writeMode=append a retry of the task writes them again.",
    ),
    "REPLAY_DIFFERS": Condition(
        WriteError,
        "Partition {partition} of batch {batch} was written before, in part or whole ({rows} rows in the stream "
        "'{stream}'), and now brings other rows or another order. Nothing was written.",
        "The query must give the same rows again, in the same partitions. To accept what is there and what comes, "
        "delete the key '{fence}'.",
    ),
    "FENCE_AHEAD": Condition(
        WriteError,
        "This is batch {batch}, but the stream '{stream}' has rows of this query's batch {found}: the checkpoint is "
        "older than what was written, or another run of the query uses a copy of it.",
        "Use the newest checkpoint. To write this batch whatever is there, delete the key '{fence}'.",
    ),
    "FENCE_BEHIND": Condition(
        WriteError,
        "The server has lost rows of the stream '{stream}': its record speaks of {rows} rows of this task, of which "
        "{known} were written.",
        "Run the task again, it writes what is missing. Servers that must not lose writes need appendfsync always, "
        "and replicas the option waitReplicas. The record is the key '{fence}'.",
    ),
    "WRITE_CONTENDED": Condition(
        WriteError,
        "{address} did not take the rows within retryTimeoutMs: somebody else changes the same records or streams, or "
        "it goes on refusing for the moment.",
        "See that the query runs once, and that the cluster is whole; or set retryTimeoutMs higher.",
    ),
    "NOT_REPLICATED": Condition(
        WriteError,
        "{found} replicas of {address} have the rows, {wanted} were to have them. They are written.",
        "See to the replicas, or set waitTimeoutMs higher.",
    ),
    "NO_REF_POLICY": Condition(
        ServerError,
        "{address} does not know reference policies, so refPolicy cannot be '{policy}'. Nothing was written.",
        "Leave the option out, or use Redis 8.2 or later, or the engine.",
    ),
    "STREAM_EXISTS": Condition(
        WriteError, "The stream '{stream}' of {address} exists.", "Write elsewhere, or leave saveMode out to append."
    ),
    "NO_BATCH_IDENTITY": Condition(
        WriteError,
        "Spark does not tell this task its query and batch, so what it writes cannot be told from a repetition.",
        "Set the option writeMode to append.",
    ),
}


def fail(condition: str, **parameters: object) -> NoReturn:
    """Raise the error of that condition."""
    raise error(condition, **parameters)


def error(condition: str, **parameters: object) -> PystreamsError:
    """The error of that condition, for `raise ... from`."""
    entry = CONDITIONS[condition]
    texts = {name: str(value) for name, value in parameters.items()}
    message = f"[{condition}] {entry.text.format(**texts)} {entry.advice.format(**texts)}"
    return entry.error(message, condition, texts)
