"""Parsing of Spark's map of options into `ReadOptions` and `WriteOptions`.

The options are the fields of the section classes listed here. The case of names is ignored, because Spark passes them
in lower case. Some options are refused with an error that says what to do instead: unknown options, options of other
connectors, write options in a read, and read options in a write.

Options of other connectors have advice on their replacement, or are accepted as aliases of this connector's options.

`for_read` and `for_write` return the ACL rules that a user needs. `streamclient.commands` lists the commands for
each purpose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from spark_streams.config.common import ColumnOptions, CommonOptions, SchemaOptions
from spark_streams.config.read import GroupOptions, LimitOptions, RangeOptions, ReadOptions
from spark_streams.config.write import GuaranteeOptions, TargetOptions, TrimOptions, WriteOptions
from spark_streams.errors import fail
from streamclient.commands import RULES, Need
from streamclient.config.address import Address, Embedded
from streamclient.config.connect import ConnectOptions
from streamclient.config.option import Option, options_of, refuse
from streamclient.record_keys import PREFIX
from streamwire.lazy import difflib

_SPARK_REDIS = {
    "stream.keys": "Set 'stream', or 'streams' for several streams.",
    "stream.offsets": "Set 'group' to the group's name and 'startingOffsets' to the IDs, as JSON by stream.",
    "stream.group.name": "Set 'group'.",
    "stream.consumer.prefix": "Set 'consumerPrefix'.",
    "stream.parallelism": "Set 'minPartitions': it splits a stream into ranges of IDs. Each range keeps its order.",
    "stream.read.batch.size": "Set 'maxEntriesPerTrigger' for a micro-batch, 'pageSize' for a reply.",
    "stream.read.block": "Remove it: a trigger without new entries already waits for them, for at most 'idleWaitMs'.",
    "host": "Set 'url' to redis://host:port.",
    "port": "Set 'url' to redis://host:port.",
    "auth": "Set 'password'.",
    "dbNum": "Set 'url' to redis://host:port/database.",
    "ssl": "Set 'url' to a URL that begins with rediss://.",
    "timeout": "Set 'retryTimeoutMs'.",
}
_KAFKA = {
    "kafka.bootstrap.servers": "Set 'url' to redis://host:port.",
    "kafka.group.id": "Set 'group'.",
    "groupIdPrefix": "Set 'group', to a different name for each query.",
    "subscribePattern": "Set 'streamPattern' to a glob, such as sensors:*.",
    "startingOffsetsByTimestampStrategy": "Remove it: a start after a stream's last entry waits for later entries.",
    "assign": "Set 'streams'. For several partitions per stream set 'minPartitions'.",
    "topic": "Set 'stream', or write a column '_stream'.",
    "includeHeaders": "Remove it: all fields of an entry are in the column 'fields', or in columns with the names of "
    "the fields.",
}
_STREAMING_WRITES = {
    "checkpointLocation": "Set it on writeStream.",
    "queryName": "Set it on writeStream, with queryName().",
}
_AUTO_LOADER = {"rescuedDataColumn": "Name a string column '_rescued' in the schema."}
_FILES = {"paths": "Set 'streams' to a comma-separated list; load() takes one stream."}

#: Options of other connectors by name in lower case, as Spark passes them: spelling, connector, and what to do instead.
INSTEAD = {
    name.lower(): (name, peer, advice)
    for peer, table in (
        ("spark-redis", _SPARK_REDIS),
        ("Spark's Kafka source", _KAFKA),
        ("Spark's file sources", _FILES),
        ("Spark's streaming writes", _STREAMING_WRITES),
        ("Databricks' Auto Loader", _AUTO_LOADER),
    )
    for name, advice in table.items()
}


#: The classes that declare options, in the order of the documentation, where their docstrings become headings.
SECTIONS: tuple[type[Any], ...] = (
    ConnectOptions,
    CommonOptions,
    SchemaOptions,
    RangeOptions,
    GroupOptions,
    LimitOptions,
    ColumnOptions,
    GuaranteeOptions,
    TargetOptions,
    TrimOptions,
)

#: Options of a streaming write that are meant for Spark: where it keeps its progress, and how.
_OF_SPARK = frozenset(
    {
        "checkpointlocation",
        "queryname",
        "asyncprogresstrackingenabled",
        "asyncprogresstrackingcheckpointintervalms",
        "_asyncprogresstrackingoverridesinksupportcheck",
    }
)


#: Zone of the session that called `load`. `preflight` adds it, since tasks outside of SQL executions do not get it.
SESSION_ZONE = "sessionTimeZone"


class _Scope:
    """The options of reads, writes or connections, by name, and the dataclasses that hold their values."""

    def __init__(self, noun: str, doing: str, *classes: type[Any]) -> None:
        self.noun = noun
        self.doing = doing
        self._classes = classes
        self._found = {
            name.lower(): (each, field, option)
            for each in classes
            for field, option in options_of(each).items()
            for name in option.names
        }

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._found

    def names(self) -> list[str]:
        return [name for _, _, option in self._found.values() for name in option.names]

    def chosen(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the options of this scope among the given options."""
        return {name: text for name, text in given.items() if name in self}

    def spelling(self, name: str) -> str | None:
        """Return the documented spelling of a name; None if this scope has no such option."""
        found = self._found.get(name.lower())
        return None if found is None else next(each for each in found[2].names if each.lower() == name.lower())

    def parse(self, given: Mapping[str, str], *, streaming: bool | None = None) -> list[dict[str, Any]]:
        """Return for each class a dictionary of its fields' values, taken from the given options.

        `streaming`: see `Option.check_use`.
        """
        values: dict[type[Any], dict[str, Any]] = {each: {} for each in self._classes}
        names: dict[Option, str] = {}
        for name, text in given.items():
            if name not in self:
                _refuse(name, self)
            owner, field, option = self._found[name.lower()]
            spelling = self.spelling(name) or name
            if option in names:
                fail("CONFLICTING_OPTIONS", option=names[option], other=spelling)
            names[option] = spelling
            value = option.parse(text, spelling)
            option.check_use(value, spelling, self.noun, streaming=streaming)
            values[owner][field] = value
        return list(values.values())


CONNECT = _Scope("connections", "connecting", ConnectOptions)
READ = _Scope("reads", "reading", ConnectOptions, ReadOptions)
WRITE = _Scope("writes", "writing", ConnectOptions, WriteOptions)


def read_options(given: Mapping[str, str], *, streaming: bool | None = None) -> ReadOptions:
    """Return the options of a read. `streaming`: whether it is a streaming read; None if unknown."""
    connect, options = _read(given, streaming)
    return replace(options, address=connect.server())


def check_read(given: Mapping[str, str], *, streaming: bool | None = None) -> None:
    """Raise the errors of `read_options`, except errors that depend on the process's environment."""
    _read(given, streaming)


def _read(given: Mapping[str, str], streaming: bool | None) -> tuple[ConnectOptions, ReadOptions]:
    zone = next((text for name, text in given.items() if name.lower() == SESSION_ZONE.lower()), None)
    named = {name: text for name, text in given.items() if name.lower() != SESSION_ZONE.lower()}
    connect, read = READ.parse(named, streaming=streaming)
    options = ReadOptions(**read, session_zone=zone)
    if streaming is False and options.group is not None and "group" not in options.starting.kinds:
        refuse(options, "group", "a batch read uses it only with startingOffsets=group: remove it")
    return ConnectOptions(**connect), options


def write_options(given: Mapping[str, str], *, streaming: bool = False) -> WriteOptions:
    """Return the options of a write. Options that Spark adds are ignored."""
    connect, options = _write(given, streaming=streaming)
    return replace(options, address=connect.server())


def check_streaming_write(given: Mapping[str, str]) -> None:
    """Raise the errors of `write_options`, except errors that depend on the process's environment."""
    _write(given, streaming=True)


def _write(given: Mapping[str, str], *, streaming: bool) -> tuple[ConnectOptions, WriteOptions]:
    remaining = {name: text for name, text in given.items() if name.lower() not in _OF_SPARK}
    connect, write = WRITE.parse(remaining, streaming=streaming)
    return ConnectOptions(**connect), WriteOptions(**write)


def server(given: Mapping[str, str]) -> Address | Embedded:
    """Return the server named by connection options. Other options are refused."""
    (connect,) = CONNECT.parse(given)
    return ConnectOptions(**connect).server()


def of_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the connection options that this process's environment adds to those of a read or write."""
    (connect,) = CONNECT.parse(CONNECT.chosen(given))
    return ConnectOptions(**connect).of_environment()


def check_names(given: Iterable[str]) -> None:
    """Raise UNKNOWN_OPTION for a name that is an option of neither reads nor writes."""
    for name in given:
        if name not in READ and name not in WRITE and name.lower() not in _OF_SPARK:
            _refuse(name, READ, WRITE)


def dotted(name: str) -> str:
    """Return the option's name for a Python identifier: `tls.caFile` for `tls_caFile`."""
    other = name.replace("_", ".")
    return other if other in READ or other in WRITE else name


def check_values(given: Mapping[str, str]) -> None:
    """Raise the errors of a write if all options are for writes and some are not for reads. Otherwise raise the errors
    of a read. A missing stream is not an error.
    """
    check_names(given)
    if all(name in READ for name in given) or not all(name in WRITE for name in given):
        table = options_of(ReadOptions)
        names = {name.lower() for field in ("stream", "stream_list", "pattern") for name in table[field].names}
        _read(given if names & {name.lower() for name in given} else {**given, "streamPattern": "*"}, None)
    else:
        _write(given, streaming=False)


def _refuse(name: str, *scopes: _Scope) -> NoReturn:
    """Raise an error with advice for an option that no scope has."""
    doing = " or ".join(scope.doing for scope in scopes)
    instead = INSTEAD.get(name.lower())
    if instead is not None:
        own, peer, replacement = instead
        fail("FOREIGN_OPTION", option=own, peer=peer, instead=replacement)
    for other in (READ, WRITE):
        spelling = other.spelling(name)
        if spelling is not None:
            fail("OPTION_ELSEWHERE", option=spelling, there=other.doing, here=doing)
    folded = {each.lower(): each for scope in scopes for each in scope.names()}
    nearest = difflib.get_close_matches(name.lower(), folded, n=1)
    known = "docs/reference/options.md lists all options."
    advice = f"The nearest known name is '{folded[nearest[0]]}'." if nearest else known
    fail("UNKNOWN_OPTION", option=name, scope=doing, advice=advice)


_BY_ACK = {"commit": Need.READ_GROUP, "cursor": Need.READ_CURSOR}
_NAMED = 20  # maximum number of streams named in the rules; for more, their common prefix is used


def for_read(options: ReadOptions, address: Address) -> str:
    """Return the rules for a read with these options."""
    keys = ["~*"] if options.pattern is not None else _keys(options.streams)
    rows = [Need.READ]
    if options.group is not None:
        keys.append("~pystreams:*")
        rows = [_BY_ACK[options.ack]]
        rows = [Need.SHARED] if options.shared else rows
    rows += [Need.PATTERN] if options.pattern is not None else []
    rows += [Need.TRIM_ON_COMMIT] if options.trims else []
    if options.dead_letters is not None:
        keys.append(f"~{options.dead_letters}")
        rows.append(Need.DEAD_LETTERS)
    return _rules(keys, [*rows, *_of_connection(address)])


def for_write(options: WriteOptions, address: Address, *, overwrite: bool = False) -> str:
    """Return the rules for a write with these options. If rows name their streams, the rules allow all keys."""
    keys = ["~*" if options.stream is None else f"~{options.stream}{':*' if options.partitions is not None else ''}"]
    rows = [Need.APPEND]
    if options.mode != "append":
        keys.append(f"~{PREFIX.decode()}*")
        rows = [
            Need.WRITE_ONCE,
            Need.WRITE_AGAIN,
        ]
    trims = options.maxlen is not None or options.retention is not None
    rows += [Need.TRIM_ON_WRITE] if trims else []
    rows += [Need.OVERWRITE] if overwrite else []
    rows += [Need.WAIT_REPLICAS] if options.wait_replicas else []
    return _rules(keys, [*rows, *_of_connection(address)])


def _keys(streams: Sequence[str]) -> list[str]:
    """Return the rules for the keys of these streams.

    Many streams are replaced by their common prefix to keep the rules short, because errors and tasks contain them.
    """
    if len(streams) <= _NAMED:
        return [f"~{stream}" for stream in streams]
    first, last = min(streams), max(streams)
    same = next((at for at, (left, right) in enumerate(zip(first, last, strict=False)) if left != right), len(first))
    return [f"~{first[:same]}*"]


def _of_connection(address: Address) -> Iterator[Need]:
    yield Need.IDLE
    if address.kind == "cluster":
        yield Need.CLUSTER
    if address.kind == "sentinel":
        yield Need.SENTINEL_SERVER
    if address.login.database:
        yield Need.DATABASE


def _rules(keys: list[str], rows: list[Need]) -> str:
    words = [word for row in (Need.ANY, *rows) for word in RULES[row].split()]
    return " ".join(dict.fromkeys([*keys, *words]))
