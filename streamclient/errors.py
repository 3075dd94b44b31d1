"""Errors between a program and a server: exceptions, and their conditions.

    PystreamsError
    |-- OptionsError    the options are wrong or contradict each other (also a ValueError)
    |-- ServerError     the server cannot be reached, or refused a command
    |-- StreamError     a stream or its consumer group is missing or unsuitable
    `-- WriteError      rows could not be written

Messages never contain passwords: addresses are shown without them. Errors of a link (`LinkError`, `ResponseError`,
`HandshakeError`) have no conditions: other modules convert them.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamwire.errors import Condition, Conditions, PystreamsError

__all__ = [
    "CONDITIONS",
    "OptionsError",
    "PystreamsError",
    "ServerError",
    "StreamError",
    "WriteError",
    "error",
    "fail",
    "first_of",
]

_NAMED = 3  # number of streams that an error names in addition to the first one


class OptionsError(PystreamsError, ValueError):
    pass


class ServerError(PystreamsError):
    pass


class StreamError(PystreamsError):
    pass


class WriteError(PystreamsError):
    pass


_TABLE: dict[str, Condition] = {
    "INVALID_OPTION": Condition(OptionsError, "Option '{option}' is '{value}', but {expected}.", "Correct the option."),
    "CONFLICTING_OPTIONS": Condition(
        OptionsError, "Options '{option}' and '{other}' exclude each other.", "Set only one of the two."
    ),
    "REGISTRY_UNREACHABLE": Condition(
        ServerError,
        "The schema registry at {registry} does not answer: {reason}.",
        "Check the option schemaRegistry.url (scheme, host, port, path), and that the registry is running. For a "
        "private CA, set schemaRegistry.caFile.",
    ),
    "REGISTRY_LOGIN_REFUSED": Condition(
        ServerError,
        "The schema registry at {registry} refused {request} with status {status}: {reason}.",
        "Correct the options schemaRegistry.user and schemaRegistry.password, or schemaRegistry.token, or the rights "
        "of that login.",
    ),
    "REGISTRY_REFUSED": Condition(
        ServerError,
        "The schema registry at {registry} answered {request} with status {status}: {reason}.",
        "Check that the option schemaRegistry.url names a registry with Confluent's interface, including its path, and "
        "read the registry's log.",
    ),
    "SCHEMA_INCOMPATIBLE": Condition(
        WriteError,
        "The schema registry at {registry} refuses a new schema for the subject '{subject}', because it is "
        "incompatible with the subject's other schemas: {reason}.",
        "Use the subject's types for the columns, and declare each new column in valueSchema with a default (a union "
        "whose first type is null). Alternatively, set schemaRegistry.register to false to write with the subject's "
        "latest schema, name another schemaRegistry.subject, or lower the subject's compatibility level.",
    ),
    "SUBJECT_MISSING": Condition(
        OptionsError,
        "The schema registry at {registry} has no matching schema for the subject '{subject}'.",
        "Correct the option schemaRegistry.subject (by default the stream's name and '-value'), or register a schema "
        "for that subject. Alternatively, give a read a schema of columns, and a write the option valueSchema or "
        "schemaRegistry.register.",
    ),
    "VALUE_NOT_WRITABLE": Condition(
        WriteError,
        "{row} cannot be written as {format}: {reason}.",
        "Correct the row, or the schema: a null needs a field that may be null, a number needs a wide enough type, and "
        "an enum needs one of its symbols.",
    ),
    "SCHEMA_UNUSABLE": Condition(
        OptionsError, "The schema {source} cannot be used: {reason}.", "Correct this schema, or name another one."
    ),
    "SCHEMA_MISSING": Condition(
        OptionsError,
        "Values in the format {format} need a schema, but none is given.",
        "Give the schema itself (valueSchema), a file (valueSchemaFile), or a registry (schemaRegistry.url). On the "
        "command line: --schema or --registry.",
    ),
    "MESSAGE_MISSING": Condition(
        OptionsError,
        "The schema {source} has no message '{message}'. Its messages: {known}.",
        "Correct the option valueMessage (on the command line: --message).",
    ),
    "PROTO_TEXT": Condition(
        OptionsError,
        "The schema {source} is the text of a .proto file, which only a compiler can read.",
        "Install a compiler (pip install grpcio-tools), or compile the file: protoc --include_imports "
        "--descriptor_set_out=FILE, and name that file. With a "
        "registry that supports format=serialized, neither is needed.",
    ),
    "FORMAT_PACKAGE_MISSING": Condition(
        OptionsError,
        "Values in the format {format} need the package '{package}', which this Python does not have.",
        "Install it wherever the driver and tasks run: pip install 'pystreams-spark[formats]'.",
    ),
    "SERVER_UNREACHABLE": Condition(
        ServerError,
        "Cannot connect to {address}: {reason}.",
        "Check the option 'url' (host and port), and that the server is running.",
    ),
    "SERVER_REFUSED": Condition(
        ServerError,
        "{address} refused {command}: {reason}{meaning}.",
        "Read the server's reply and its log. The option 'url' names the server.",
    ),
    "LOGIN_REFUSED": Condition(
        ServerError,
        "{address} refused the login with {given}: {reason}.",
        "Correct the options 'user' and 'password', passwordFile or credentialProvider (or the URL, or the "
        "driver's environment variables PYSTREAMS_USER and PYSTREAMS_PASSWORD). For Sentinels, set sentinelUser and "
        "sentinelPassword.",
    ),
    "CREDENTIALS_MISSING": Condition(
        ServerError,
        "No user and password came from {source} on {host}: {reason}.",
        "Correct the option passwordFile or credentialProvider. The file, and the module with its packages, "
        "must be on every machine of driver and tasks.",
    ),
    "NOT_PERMITTED": Condition(
        ServerError,
        "{address} does not allow the user '{user}' to run {command}: {reason}.",
        "All required permissions: ACL SETUSER {user} {needs} (docs/reference/permissions.md).",
    ),
    "UNKNOWN_COMMAND": Condition(
        ServerError,
        "{address} does not know the command {command}: {reason}.",
        "Check that the option 'url' names Redis 6.2 or later, Valkey or the engine. For Sentinels it must begin "
        "with redis+sentinel://.",
    ),
    "NOT_A_CLUSTER": Condition(
        ServerError,
        "{address} names a cluster, but the server is not part of a cluster: {reason}.",
        "Set the option 'url' to {url}.",
    ),
    "CLUSTER_NODE": Condition(
        ServerError,
        "{address} names a single server, but it is a node of a cluster: {reason}.",
        "Set the option 'url' to {url}.",
    ),
    "NOT_A_SENTINEL": Condition(
        ServerError,
        "{address} names Sentinels, but the server is not a Sentinel: {reason}.",
        "Set the option 'url' to {url} to connect to that server, or name the Sentinels' port (26379 by default).",
    ),
    "TLS_NEEDED": Condition(
        ServerError,
        "{address} names a server without TLS, but the server requires TLS.",
        "Set the option 'url' to {url}.",
    ),
    "TLS_NOT_SPOKEN": Condition(
        ServerError,
        "{address} names a server with TLS, but the server does not use TLS.",
        "Set the option 'url' to {url}, or to the server's TLS port.",
    ),
    "CONNECTION_BROKEN": Condition(
        ServerError,
        "The connection broke during a command that may have been executed: {reason}.",
        "Check that the server is running, and run the query again. Set the option retryTimeoutMs longer than "
        "a failover takes.",
    ),
    "NOT_A_STREAM": Condition(
        StreamError, "The key '{stream}' at {address} is not a stream.", "Name a stream, or delete the key."
    ),
    "STREAM_NAME_NOT_TEXT": Condition(
        StreamError,
        "The pattern '{pattern}' matches the stream '{stream}', whose name is not UTF-8.",
        "Use a pattern that does not match it, or rename the stream.",
    ),
    "GROUP_LOST": Condition(
        StreamError,
        "The stream '{stream}' at {address} no longer has the consumer group '{group}'.",
        "Create the group at the ID where reading should continue, or set the option failOnDataLoss to false, "
        "which creates the group at the stream's first entry.",
    ),
    "ROW_REFUSED": Condition(
        WriteError,
        "Row {row} of the task was refused by {address}: {reason}.",
        "The rows of earlier chunks are written. With writeMode=append a retry of the task writes them again.",
    ),
    "WRITE_CONTENDED": Condition(
        WriteError,
        "{address} did not accept the rows within retryTimeoutMs: another client keeps changing the same records or "
        "streams, or the server refuses them temporarily.",
        "Check that the query runs only once and that the cluster is complete, or raise retryTimeoutMs.",
    ),
}
CONDITIONS = Conditions(_TABLE)
error, fail = CONDITIONS.error, CONDITIONS.fail


def first_of(problems: Mapping[str, PystreamsError]) -> PystreamsError:
    """Return the first of these errors, whose keys are the names of their streams.

    If there are other errors, the text also has their number and the names of up to three of their streams.
    """
    first, *others = problems.values()
    if not others:
        return first
    names = [f"'{stream}'" for stream in list(problems)[1 : 1 + _NAMED]]
    more = "one more stream" if len(others) == 1 else f"{len(others)} more streams"
    etc = ", ..." if len(others) > _NAMED else ""
    message = f"{first} The same kind of error occurred in {more}: {', '.join(names)}{etc}"
    return type(first)(message, first.condition, first.parameters)


class LinkError(OSError):
    """The socket broke, or could not be opened."""


class LoginRefusedError(LinkError):
    """The server refused user and password."""


class ResponseError(Exception):
    """A server's error reply, with its code as the first word of the text."""


class HandshakeError(Exception):
    """The server refused a command with which a link starts."""

    def __init__(self, command: str, reply: ResponseError) -> None:
        super().__init__(f"{command}: {reply}")
        self.command = command
        self.reply = reply


#: Exceptions of a broken or unreachable socket. A server's error reply is `ResponseError` instead.
BROKEN = (OSError,)
