"""The options of a read: their table, what they become, and which of them exclude each other.

Part of `spark_streams.config.options`, which parses; knows no server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spark_streams.config import positions, time_zones
from spark_streams.config.address import Address, Embedded
from spark_streams.config.option import Option, Scope, choice, duration, flag, names, text, whole
from spark_streams.config.positions import Positions
from spark_streams.errors import fail

_READ: tuple[Scope, ...] = ("read",)
_BOTH: tuple[Scope, ...] = ("read", "write")

TABLE: tuple[Option, ...] = (
    Option("streams", _READ, "", "A comma list of streams to read together.", names),
    Option(
        "streamPattern",
        _READ,
        "",
        "A glob, as in 'sensors:*', of the streams to read together. It is looked up at each trigger (SCAN); a stream "
        "that is found while the query runs is read from its first entry.",
        text,
    ),
    Option(
        "group",
        _READ,
        "",
        "The consumer group in which this query keeps its position: entries are pending while their batch runs, and "
        "acknowledged once Spark has finished it. The group is made where it is missing, and belongs to this query "
        "unless 'consume' is 'shared'.",
        text,
    ),
    Option(
        "consumer", _READ, "spark", "Begin of the consumers' names in the group; '-' and the partition follow.", text
    ),
    Option("consumerPrefix", _READ, "", "Another name of 'consumer'.", text),
    Option(
        "consume",
        _READ,
        "range",
        "'range': this query owns its group, and partitions are ID ranges. 'shared': it is one of several consumers of "
        "the group, beside programs that are not Spark; each task takes what is new with one XREADGROUP.",
        choice("range", "shared"),
    ),
    Option(
        "ack",
        _READ,
        "commit",
        "'commit': entries are pending while their batch runs, and acknowledged (XACK) when it is finished. 'cursor': "
        "only the group's last-delivered ID follows. 'none': the group is left as it is.",
        choice("commit", "cursor", "none"),
    ),
    Option(
        "claimIdleMs",
        _READ,
        "",
        "With consume=shared: take over entries that another consumer has left pending for so long.",
        whole(1),
    ),
    Option(
        "maxDeliveries",
        _READ,
        "",
        "With consume=shared: an entry that was delivered more often than this goes to deadLetterStream instead.",
        whole(1),
    ),
    Option(
        "deadLetterStream",
        _READ,
        "",
        "The stream that gets entries which cannot be delivered: their fields, and the reason, the number of "
        "deliveries, and where they come from.",
        text,
    ),
    Option(
        "trimOnCommit",
        _READ,
        "false",
        "Remove (XTRIM MINID) what this query has finished, but nothing that another group has yet to read or "
        "acknowledge.",
        flag,
    ),
    Option(
        "failOnDataLoss",
        _READ,
        "true",
        "Whether it is an error if entries are gone before they were read: trimmed, deleted, or with their whole "
        "stream. If not, there is a warning, and the number in the query's progress.",
        flag,
    ),
    Option(
        "startingOffsets",
        _READ,
        "latest (streaming), earliest (batch)",
        "Where a new query, or a batch, begins: 'earliest', 'latest', 'group' (after what the group was given), an "
        "ID (the first to read), or JSON with one of these per stream. A streaming query whose group exists already "
        "takes 'latest' as 'group'.",
        text,
    ),
    Option(
        "startingTimestamp",
        _READ,
        "",
        "Begin with the first entry of that time or later instead: milliseconds since 1970, an ISO 8601 time (in "
        "timeZone, or UTC, if it says no zone), or JSON with one of these per stream.",
        text,
    ),
    Option(
        "endingOffsets",
        _READ,
        "latest",
        "Where a batch ends: 'latest', an ID (the last to read), or JSON with one of these per stream.",
        text,
    ),
    Option("endingTimestamp", _READ, "", "End a batch before the first entry of that time or later instead.", text),
    Option(
        "maxEntriesPerTrigger",
        _READ,
        "",
        "At most so many entries in a micro-batch, shared among the streams in proportion to what each has waiting.",
        whole(1),
    ),
    Option(
        "minEntriesPerTrigger",
        _READ,
        "",
        "Wait until there are so many entries, but no longer than maxTriggerDelay.",
        whole(1),
    ),
    Option("maxTriggerDelay", _READ, "15m", "How long to wait for minEntriesPerTrigger.", duration),
    Option(
        "maxBytesPerTrigger",
        _READ,
        "",
        "About so many bytes of entries in a micro-batch, judged by the size of those that come next.",
        whole(1),
    ),
    Option("minPartitions", _READ, "", "Split streams so that there are at least so many partitions.", whole(1)),
    Option(
        "maxEntriesPerPartition", _READ, "", "Split streams so that no partition has more entries than this.", whole(1)
    ),
    Option("pageSize", _READ, "10000", "At most so many entries in one reply of the server.", whole(1)),
    Option(
        "valueFormat",
        _BOTH,
        "fields",
        "'fields': a column is the field of its name. 'json': one field, valueField, holds a JSON object with all of "
        "them.",
        choice("fields", "json"),
    ),
    Option("valueField", _BOTH, "value", "With valueFormat=json: the field that holds the object.", text),
    Option(
        "fieldsType",
        _READ,
        "string",
        "What the map column 'fields' holds without a schema: 'string' or 'binary'.",
        choice("string", "binary"),
    ),
    Option(
        "inferSchema",
        _READ,
        "false",
        "Without a schema: read some entries and make a column of each field, with the type that its values have.",
        flag,
    ),
    Option("samplingSize", _READ, "1000", "How many entries of each stream inferSchema reads.", whole(1)),
    Option(
        "mode",
        _READ,
        "PERMISSIVE",
        "What becomes of an entry with a value that is not of its column's type. 'PERMISSIVE': null. 'DROPMALFORMED': "
        "the row is left out. 'FAILFAST': an error.",
        choice("permissive", "dropmalformed", "failfast"),
    ),
    Option(
        "columnNameOfCorruptRecord",
        _READ,
        "_corrupt_record",
        "The string column that, where it is in the schema, gets an entry with such a value as JSON.",
        text,
    ),
)


@dataclass(frozen=True)
class ReadOptions:
    """What a reader is told. `address` is None for the embedded engine; positions are None where the user gave none.

    `streams` is empty where `pattern` finds them. Times are in milliseconds.
    """

    address: Address | Embedded
    streams: tuple[str, ...]
    pattern: str | None
    group: str | None
    consumer: str
    shared: bool
    ack: str
    claim_idle: int | None
    max_deliveries: int | None
    dead_letters: str | None
    trims: bool
    fails: bool
    starting: Positions | None
    ending: Positions | None
    max_entries: int | None
    min_entries: int | None
    max_delay: int
    max_bytes: int | None
    min_partitions: int
    max_per_partition: int | None
    page_size: int
    json_field: str | None
    null_value: str | None
    zone: str | None
    binary: bool
    samples: int | None
    mode: str
    corrupt: str


def build(said: dict[str, Any], address: Address | Embedded) -> ReadOptions:
    """The options, checked against each other."""
    for one, other in (
        ("stream", "streams"),
        ("stream", "streamPattern"),
        ("streams", "streamPattern"),
        ("startingOffsets", "startingTimestamp"),
        ("endingOffsets", "endingTimestamp"),
    ):
        if one in said and other in said:
            fail("CONFLICTING_OPTIONS", option=one, other=other)
    streams: tuple[str, ...] = said.get("streams") or ((said["stream"],) if "stream" in said else ())
    pattern: str | None = said.get("streamPattern")
    if not streams and pattern is None:
        fail("MISSING_STREAM")
    shared = said["consume"] == "shared"
    _check_group(said, shared)
    if "minEntriesPerTrigger" in said and said["minEntriesPerTrigger"] > said.get("maxEntriesPerTrigger", 2**63):
        expected = "it must not be more than maxEntriesPerTrigger"
        fail("INVALID_OPTION", option="minEntriesPerTrigger", value=said["minEntriesPerTrigger"], expected=expected)
    named = None if pattern is not None else streams
    starting = _positions(said, "starting", named)
    if starting is not None and "group" in starting.kinds() and "group" not in said:
        fail("MISSING_GROUP", option="startingOffsets", value="group")
    return ReadOptions(
        address=address,
        streams=streams,
        pattern=pattern,
        group=said.get("group"),
        consumer=said.get("consumerPrefix") or said["consumer"],
        shared=shared,
        ack=said["ack"],
        claim_idle=said.get("claimIdleMs"),
        max_deliveries=said.get("maxDeliveries"),
        dead_letters=said.get("deadLetterStream"),
        trims=said["trimOnCommit"],
        fails=said["failOnDataLoss"],
        starting=starting,
        ending=_positions(said, "ending", named),
        max_entries=said.get("maxEntriesPerTrigger"),
        min_entries=said.get("minEntriesPerTrigger"),
        max_delay=said["maxTriggerDelay"],
        max_bytes=said.get("maxBytesPerTrigger"),
        min_partitions=said.get("minPartitions", 1),
        max_per_partition=said.get("maxEntriesPerPartition"),
        page_size=said["pageSize"],
        json_field=said["valueField"] if said["valueFormat"] == "json" else None,
        null_value=said.get("nullValue"),
        zone=said.get("timeZone"),
        binary=said["fieldsType"] == "binary",
        samples=said["samplingSize"] if said["inferSchema"] else None,
        mode=said["mode"],
        corrupt=said["columnNameOfCorruptRecord"],
    )


def _check_group(said: dict[str, Any], shared: bool) -> None:
    if shared:
        if "group" not in said:
            fail("MISSING_GROUP", option="consume", value="shared")
        if said["ack"] != "commit":
            fail("INVALID_OPTION", option="ack", value=said["ack"], expected="a shared group needs 'commit'")
        for name in ("minEntriesPerTrigger", "maxBytesPerTrigger"):
            if name in said:
                expected = "what a shared group has waiting is not this query's alone to count"
                fail("INVALID_OPTION", option=name, value=said[name], expected=expected)
    else:
        for name in ("claimIdleMs", "maxDeliveries"):
            if name in said:
                expected = "only consume=shared has other consumers to take over from"
                fail("INVALID_OPTION", option=name, value=said[name], expected=expected)
    for name, other, why in (
        ("maxDeliveries", "deadLetterStream", "it needs deadLetterStream, or such entries would be lost"),
        ("deadLetterStream", "maxDeliveries", "it needs maxDeliveries, and consume=shared"),
    ):
        if name in said and other not in said:
            fail("INVALID_OPTION", option=name, value=said[name], expected=why)
    if said.get("deadLetterStream") in (said.get("stream"), *said.get("streams", ())) and "maxDeliveries" in said:
        expected = "it must not be a stream that the query reads"
        fail("INVALID_OPTION", option="deadLetterStream", value=said["deadLetterStream"], expected=expected)


def _positions(said: dict[str, Any], which: str, streams: tuple[str, ...] | None) -> Positions | None:
    if f"{which}Timestamp" in said:
        zone = said.get("timeZone", time_zones.UTC)
        return positions.parse_times(f"{which}Timestamp", said[f"{which}Timestamp"], streams, zone)
    if f"{which}Offsets" in said:
        option = f"{which}Offsets"
        return positions.parse(option, said[option], streams, end=which == "ending")
    return None
