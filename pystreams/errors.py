"""The command line's own error conditions: their messages, advice and exit statuses.

Refused commands and unreachable servers raise the errors of `streamclient.errors`. Exit statuses are for scripts and
never change. docs/reference/command-line.md lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from streamclient.errors import OptionsError, PystreamsError
from streamwire.errors import Condition, Conditions


class Status(IntEnum):
    """Exit statuses of the process."""

    DONE = 0
    FAILED = 1
    #: The command line is wrong, or a change was not confirmed. click uses the same number.
    USAGE = 2
    #: The command succeeded, and found a lag above the limit, a problem or a difference.
    FOUND = 3
    #: A stream, group, consumer, entry, file or profile does not exist, or a file cannot be used.
    MISSING = 4
    #: The server cannot be reached, or refuses the login.
    UNREACHABLE = 5
    #: The ACL user lacks the permission for a command or a key.
    NOT_PERMITTED = 6
    INTERRUPTED = 130


class CommandError(PystreamsError):
    """Error of the command line itself."""


@dataclass(frozen=True)
class Failure(Condition):
    """Error condition that ends the process, with its exit status."""

    status: Status


FAILURES: dict[str, Failure] = {
    "NO_SUCH_STREAM": Failure(
        CommandError,
        "There is no stream '{stream}' at {address}.",
        "'pystreams ls' lists the streams.",
        Status.MISSING,
    ),
    "NO_SUCH_GROUP": Failure(
        CommandError,
        "The stream '{stream}' at {address} has no consumer group '{group}'.",
        "'pystreams groups ls {stream}' lists its groups.",
        Status.MISSING,
    ),
    "NO_SUCH_CONSUMER": Failure(
        CommandError,
        "The group '{group}' of the stream '{stream}' has no consumer '{consumer}'.",
        "'pystreams groups describe {stream} {group}' lists its consumers.",
        Status.MISSING,
    ),
    "NO_SUCH_ENTRY": Failure(
        CommandError,
        "The stream '{stream}' has no entry {id}.",
        "The entry may have been trimmed or deleted.",
        Status.MISSING,
    ),
    "NO_SUCH_LETTER": Failure(
        CommandError,
        "The stream '{stream}' has no dead letter {id}.",
        "'pystreams dlq ls {stream}' lists its dead letters.",
        Status.MISSING,
    ),
    "NO_SUCH_BATCH": Failure(
        CommandError,
        "{address} has no record of batch {batch} of '{name}', or a later batch has started.",
        "'pystreams batches ls' lists the batches that are not complete.",
        Status.MISSING,
    ),
    "BATCH_COMPLETE": Failure(
        CommandError,
        "Batch {batch} of '{name}' is complete. If the query continues with the next batch, it never writes these rows "
        "again.",
        "Add --committed only if the query repeats this batch, and fails with REPLAY_DIFFERS.",
        Status.FAILED,
    ),
    "NO_GROUPS": Failure(
        CommandError,
        "The stream '{stream}' has no consumer group, so no entry has been acknowledged.",
        "Trim the stream with --maxlen or --older-than.",
        Status.FAILED,
    ),
    "NO_CHECKPOINT": Failure(
        CommandError,
        "The directory {directory} has no checkpoint of a streaming query, or the query has not started a batch yet.",
        "Give the query's checkpointLocation. That directory contains the directories offsets and commits.",
        Status.MISSING,
    ),
    "CHECKPOINT_MALFORMED": Failure(
        CommandError,
        "The checkpoint in {file} cannot be read: {reason}.",
        "Name the checkpoint of a query that reads with format pystreams, and check that no file is missing.",
        Status.FAILED,
    ),
    "FILE_EXISTS": Failure(
        CommandError,
        "The file {file} already exists.",
        "Write to another file, or continue the existing file with --resume.",
        Status.FAILED,
    ),
    "STREAM_NOT_EMPTY": Failure(
        CommandError,
        "The stream '{stream}' already has IDs up to {last}.",
        "Choose another stream. If an earlier run was interrupted, --resume continues after that ID.",
        Status.FAILED,
    ),
    "STREAM_DIFFERS": Failure(
        CommandError,
        "The stream '{stream}' is not a copy of {other}, which has no entry {last}.",
        "Choose another stream, or remove the stream '{stream}' and start again.",
        Status.FAILED,
    ),
    "ID_NOT_RISING": Failure(
        CommandError,
        "The stream '{stream}' rejects the ID {id} because it already has this ID or a later one.",
        "Sort the file by ID and make sure that no other program adds to the stream, or use 'pystreams produce'.",
        Status.FAILED,
    ),
    "GROUP_EXISTS": Failure(
        CommandError,
        "The stream '{stream}' already has a consumer group '{group}'.",
        "'pystreams groups seek' moves the group to another position.",
        Status.FAILED,
    ),
    "PLAN_OUTDATED": Failure(
        CommandError,
        "Nothing was changed, because {what} has changed since the plan was shown, or no longer exists.",
        "Run the command again to see the new plan.",
        Status.FAILED,
    ),
    "NO_SENTINEL": Failure(
        CommandError,
        "No Sentinel of {address} answered.",
        "Check the addresses of the Sentinels, and that they are running.",
        Status.UNREACHABLE,
    ),
    "NO_REPLICA": Failure(
        CommandError,
        "{node} has no replica that could become the master.",
        "'pystreams server replication' shows the replicas of a server.",
        Status.MISSING,
    ),
    "FAILOVER_UNFINISHED": Failure(
        CommandError,
        "{node} is still the master {seconds} seconds after a failover was requested.",
        "See the logs of the servers and Sentinels; 'pystreams server replication' shows the replicas.",
        Status.FAILED,
    ),
    "TOO_MANY": Failure(
        CommandError,
        "More than {limit} {things} match.",
        "Narrow the pattern, or raise --limit (0 for no limit).",
        Status.USAGE,
    ),
    "NO_EMBEDDED": Failure(
        CommandError,
        "No embedded engine of this user is running.",
        "An embedded engine runs only while a Spark application uses it. For another server, give --url.",
        Status.UNREACHABLE,
    ),
    "MANY_EMBEDDED": Failure(
        OptionsError,
        "{count} embedded engines of this user are running, each with its own streams.",
        "Choose one of these with --url: {engines}",
        Status.USAGE,
    ),
    "NO_PROFILE": Failure(
        CommandError,
        "There is no profile '{profile}' in {file}.",
        "Profiles in the file: {known}.",
        Status.MISSING,
    ),
    "PROFILES_MALFORMED": Failure(
        CommandError,
        "{file} cannot be read: {reason}.",
        "See the example in docs/reference/command-line.md#which-server.",
        Status.USAGE,
    ),
    "FILE_UNUSABLE": Failure(
        CommandError,
        "The file {file} cannot be used: {reason}.",
        "Check its path and permissions.",
        Status.MISSING,
    ),
    "MALFORMED_ROW": Failure(
        CommandError,
        "Row {row} of {file} cannot be read: {reason}.",
        "Correct the row, or give the format of the file with --format.",
        Status.FAILED,
    ),
    "ROW_REFUSED": Failure(
        CommandError,
        "{address} refused a row for the stream '{stream}': {reason}. "
        "Rows added: {added}, {later} of them after this row.",
        "Correct the row, and continue with it.",
        Status.FAILED,
    ),
    "PACKAGE_MISSING": Failure(
        CommandError,
        "{what} needs the package {package}, which is not installed.",
        "pip install 'pystreams-spark[{extra}]'",
        Status.FAILED,
    ),
    "PORT_UNUSABLE": Failure(
        CommandError,
        "Cannot listen on {address}: {reason}.",
        "Choose another --port or --bind.",
        Status.FAILED,
    ),
    "STATE_UNUSABLE": Failure(
        CommandError,
        "The state directory {directory} cannot be used: {reason}.",
        "Choose another directory with --state, or use '--state none' to write no audit log.",
        Status.FAILED,
    ),
    "AUDIT_UNWRITABLE": Failure(
        CommandError,
        "Nothing was changed, because the audit log {file} cannot be written: {reason}.",
        "Free space on that disk, or fix the permissions of the file.",
        Status.FAILED,
    ),
    "MISSING_SERVER": Failure(
        OptionsError,
        "The job {job} has no server: it would use an embedded engine whose data is lost when the job ends.",
        "Add --url, set PYSTREAMS_URL, or store the data of the embedded engine with --option embedded.dir=DIR.",
        Status.USAGE,
    ),
    "MISSING_CHECKPOINT": Failure(
        OptionsError,
        "The job {job} has no checkpoint, so a restart would process all entries again.",
        "Add --checkpoint URI, a directory that no other job uses.",
        Status.USAGE,
    ),
    "JOB_FILE_MALFORMED": Failure(
        OptionsError,
        "The file {file} cannot be used: {reason}.",
        "'--help' shows the job's flags.",
        Status.USAGE,
    ),
    "NO_SUCH_JOB": Failure(
        CommandError,
        "There is no job '{job}'.",
        "The jobs are {known}. 'pystreams jobs ls' describes them.",
        Status.MISSING,
    ),
    "NO_SPARK_SUBMIT": Failure(
        CommandError,
        "spark-submit was not found next to {python}, in SPARK_HOME or on PATH.",
        "Install Spark for this Python (pip install 'pystreams-spark[spark]'), or set SPARK_HOME to an installation.",
        Status.MISSING,
    ),
    "REPLAY_OTHER": Failure(
        CommandError,
        "The checkpoint {checkpoint} belongs to a replay with other flags: {before}. This run has: {now}.",
        "Continue with the flags of that replay, or give another checkpoint for a new replay.",
        Status.FAILED,
    ),
    "ARCHIVE_NOT_TEXT": Failure(
        CommandError,
        "The entry {entry} of the stream '{stream}' contains bytes that are not text.",
        "Archive the stream as bytes with --binary, to another directory.",
        Status.FAILED,
    ),
    "LEFTOVERS": Failure(
        CommandError,
        "{address} already has {names} from an earlier run.",
        "Continue with the --checkpoint of that run, or delete its keys: redis-cli DEL {names}",
        Status.FAILED,
    ),
    "INVALID_VALUE": Failure(
        OptionsError,
        "{name} is '{value}', but {expected}.",
        "'--help' shows examples.",
        Status.USAGE,
    ),
    "NOT_CONFIRMED": Failure(
        CommandError,
        "Confirmation is required to {plan}.",
        "Add --yes to confirm, or --dry-run to see the planned changes.",
        Status.USAGE,
    ),
}
CONDITIONS = Conditions(FAILURES)
error, fail = CONDITIONS.error, CONDITIONS.fail

_OF_THE_CONNECTOR = {
    "SERVER_UNREACHABLE": Status.UNREACHABLE,
    "LOGIN_REFUSED": Status.UNREACHABLE,
    "TLS_NEEDED": Status.UNREACHABLE,
    "TLS_NOT_SPOKEN": Status.UNREACHABLE,
    "NOT_A_CLUSTER": Status.UNREACHABLE,
    "NOT_A_SENTINEL": Status.UNREACHABLE,
    "CLUSTER_NODE": Status.UNREACHABLE,
    "CONNECTION_BROKEN": Status.UNREACHABLE,
    "REGISTRY_UNREACHABLE": Status.UNREACHABLE,
    "REGISTRY_LOGIN_REFUSED": Status.UNREACHABLE,
    "EMBEDDED_OUT_OF_REACH": Status.UNREACHABLE,
    "NOT_PERMITTED": Status.NOT_PERMITTED,
    "STREAM_MISSING": Status.MISSING,
    "GROUP_LOST": Status.MISSING,
    "SUBJECT_MISSING": Status.MISSING,
}


def status_of(failure: PystreamsError) -> Status:
    """Return the exit status of the process for this error."""
    if failure.condition in FAILURES:
        return FAILURES[failure.condition].status
    otherwise = Status.USAGE if isinstance(failure, OptionsError) else Status.FAILED
    return _OF_THE_CONNECTOR.get(failure.condition, otherwise)
