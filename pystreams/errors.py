"""The command line's own error conditions: their messages, advice and exit statuses.

Refused commands and unreachable servers raise the errors of `streamclient.errors`. Exit statuses are for scripts and
never change. docs/reference/command-line.md lists them.
"""

from __future__ import annotations

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


#: Text and advice of each condition, by its exit status.
_TEXTS: dict[Status, dict[str, tuple[str, str]]] = {
    Status.MISSING: {
        "NO_SUCH_STREAM": (
            "There is no stream '{stream}' at {address}.",
            "'pystreams ls' lists the streams.",
        ),
        "NO_SUCH_GROUP": (
            "The stream '{stream}' at {address} has no consumer group '{group}'.",
            "'pystreams groups ls {stream}' lists its groups.",
        ),
        "NO_SUCH_CONSUMER": (
            "The group '{group}' of the stream '{stream}' has no consumer '{consumer}'.",
            "'pystreams groups describe {stream} {group}' lists its consumers.",
        ),
        "NO_SUCH_ENTRY": (
            "The stream '{stream}' has no entry {id}.",
            "The entry may have been trimmed or deleted.",
        ),
        "NO_SUCH_BATCH": (
            "{address} has no record of batch {batch} of '{name}', or a later batch has started.",
            "'pystreams batches ls' lists the batches that are not complete.",
        ),
        "NO_CHECKPOINT": (
            "The directory {directory} has no checkpoint of a streaming query, or the query has not started a batch.",
            "Give the query's checkpointLocation. That directory contains the directories offsets and commits.",
        ),
        "NO_REPLICA": (
            "{node} has no replica that could become the master.",
            "'pystreams server replication' shows the replicas of a server.",
        ),
        "NO_PROFILE": (
            "There is no profile '{profile}' in {file}.",
            "Profiles in the file: {known}.",
        ),
        "FILE_UNUSABLE": (
            "The file {file} cannot be used: {reason}.",
            "Check its path and permissions.",
        ),
        "NO_SUCH_JOB": (
            "There is no job '{job}'.",
            "The jobs are {known}. 'pystreams jobs ls' describes them.",
        ),
        "NO_SPARK_SUBMIT": (
            "spark-submit was not found next to {python}, in SPARK_HOME or on PATH.",
            "Install Spark for this Python (pip install 'pystreams-spark[spark]'), or set SPARK_HOME.",
        ),
    },
    Status.FAILED: {
        "BATCH_COMPLETE": (
            "Batch {batch} of '{name}' is complete. If the query continues with the next batch, it never writes these "
            "rows again.",
            "Add --committed only if the query repeats this batch, and fails with REPLAY_DIFFERS.",
        ),
        "NO_GROUPS": (
            "The stream '{stream}' has no consumer group, so no entry has been acknowledged.",
            "Trim the stream with --maxlen or --older-than.",
        ),
        "CHECKPOINT_MALFORMED": (
            "The checkpoint in {file} cannot be read: {reason}.",
            "Name the checkpoint of a query that reads with format pystreams, and check that no file is missing.",
        ),
        "FILE_EXISTS": (
            "The file {file} already exists.",
            "Write to another file, or continue the existing file with --resume.",
        ),
        "STREAM_NOT_EMPTY": (
            "The stream '{stream}' already has IDs up to {last}.",
            "Choose another stream. If an earlier run was interrupted, --resume continues after that ID.",
        ),
        "STREAM_DIFFERS": (
            "The stream '{stream}' is not a copy of {other}, which has no entry {last}.",
            "Choose another stream, or remove the stream '{stream}' and start again.",
        ),
        "ID_NOT_RISING": (
            "The stream '{stream}' rejects the ID {id} because it already has this ID or a later one.",
            "Sort the file by ID and make sure that no other program adds to the stream, or use 'pystreams produce'.",
        ),
        "GROUP_EXISTS": (
            "The stream '{stream}' already has a consumer group '{group}'.",
            "'pystreams groups seek' moves the group to another position.",
        ),
        "PLAN_OUTDATED": (
            "Nothing was changed, because {what} has changed since the plan was shown, or no longer exists.",
            "Run the command again to see the new plan.",
        ),
        "FAILOVER_UNFINISHED": (
            "{node} is still the master {seconds} seconds after a failover was requested.",
            "See the logs of the servers and Sentinels; 'pystreams server replication' shows the replicas.",
        ),
        "MALFORMED_ROW": (
            "Row {row} of {file} cannot be read: {reason}.",
            "Correct the row, or give the format of the file with --format.",
        ),
        "ROW_REFUSED": (
            "{address} refused a row for the stream '{stream}': {reason}. "
            "Rows added: {added}, {later} of them after this row.",
            "Correct the row, and continue with it.",
        ),
        "PACKAGE_MISSING": (
            "{what} needs the package {package}, which is not installed.",
            "pip install 'pystreams-spark[{extra}]'",
        ),
        "PORT_UNUSABLE": (
            "Cannot listen on {address}: {reason}.",
            "Choose another --port or --bind.",
        ),
        "STATE_UNUSABLE": (
            "The state directory {directory} cannot be used: {reason}.",
            "Choose another directory with --state, or use '--state none' to write no audit log.",
        ),
        "AUDIT_UNWRITABLE": (
            "Nothing was changed, because the audit log {file} cannot be written: {reason}.",
            "Free space on that disk, or fix the permissions of the file.",
        ),
        "REPLAY_OTHER": (
            "The checkpoint {checkpoint} belongs to a replay with other flags: {before}. This run has: {now}.",
            "Continue with the flags of that replay, or give another checkpoint for a new replay.",
        ),
        "ARCHIVE_NOT_TEXT": (
            "The entry {entry} of the stream '{stream}' contains bytes that are not text.",
            "Archive the stream as bytes with --binary, to another directory.",
        ),
        "LEFTOVERS": (
            "{address} already has {names} from an earlier run.",
            "Delete these keys: redis-cli DEL {names}",
        ),
    },
    Status.USAGE: {
        "TOO_MANY": (
            "More than {limit} {things} match.",
            "Narrow the pattern, or raise --limit (0 for no limit).",
        ),
        "MANY_EMBEDDED": (
            "{count} embedded engines of this user are running, each with its own streams.",
            "Choose one of these with --url: {engines}",
        ),
        "PROFILES_MALFORMED": (
            "{file} cannot be read: {reason}.",
            "See the example in docs/reference/command-line.md#which-server.",
        ),
        "MISSING_SERVER": (
            "The job {job} has no server: it would use an embedded engine whose data is lost when the job ends.",
            "Add --url, set PYSTREAMS_URL, or store the data of the embedded engine with --option embedded.dir=DIR.",
        ),
        "MISSING_CHECKPOINT": (
            "The job {job} has no checkpoint, so a restart would process all entries again.",
            "Add --checkpoint URI, a directory that no other job uses.",
        ),
        "JOB_FILE_MALFORMED": (
            "The file {file} cannot be used: {reason}.",
            "'--help' shows the job's flags.",
        ),
        "INVALID_VALUE": (
            "{name} is '{value}', but {expected}.",
            "'--help' shows examples.",
        ),
        "NOT_CONFIRMED": (
            "Confirmation is required to {plan}.",
            "Add --yes to confirm, or --dry-run to see the planned changes.",
        ),
    },
    Status.UNREACHABLE: {
        "NO_SENTINEL": (
            "No Sentinel of {address} answered.",
            "Check the addresses of the Sentinels, and that they are running.",
        ),
        "NO_EMBEDDED": (
            "No embedded engine of this user is running.",
            "An embedded engine runs only while a Spark application uses it. For another server, give --url.",
        ),
    },
}
CONDITIONS = Conditions(
    {
        name: Condition(OptionsError if status is Status.USAGE else PystreamsError, *texts)
        for status, found in _TEXTS.items()
        for name, texts in found.items()
    }
)
error, fail = CONDITIONS.error, CONDITIONS.fail

_STATUSES = {
    **{name: status for status, found in _TEXTS.items() for name in found},
    **dict.fromkeys(
        (
            *("SERVER_UNREACHABLE", "LOGIN_REFUSED", "TLS_NEEDED", "TLS_NOT_SPOKEN", "CONNECTION_BROKEN"),
            *("NOT_A_CLUSTER", "NOT_A_SENTINEL", "CLUSTER_NODE", "EMBEDDED_OUT_OF_REACH"),
            *("REGISTRY_UNREACHABLE", "REGISTRY_LOGIN_REFUSED"),
        ),
        Status.UNREACHABLE,
    ),
    "NOT_PERMITTED": Status.NOT_PERMITTED,
    **dict.fromkeys(("STREAM_MISSING", "GROUP_LOST", "SUBJECT_MISSING"), Status.MISSING),
}


def status_of(failure: PystreamsError) -> Status:
    """Return the exit status of the process for this error."""
    otherwise = Status.USAGE if isinstance(failure, OptionsError) else Status.FAILED
    return _STATUSES.get(failure.condition, otherwise)
