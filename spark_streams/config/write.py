"""The options of a write: their table, what they become, and which of them exclude each other.

Part of `spark_streams.config.options`, which parses; knows no server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spark_streams.config import time_zones
from spark_streams.config.address import Address, Embedded
from spark_streams.config.option import Option, Scope, choice, duration, flag, text, whole
from spark_streams.errors import fail
from spark_streams.stream_id import StreamId

_WRITE: tuple[Scope, ...] = ("write",)


def _stream_id(option: Option, value: str) -> str:
    try:
        return str(StreamId.parse(value.strip()))
    except ValueError:
        fail("INVALID_OPTION", option=option.name, value=value, expected="it must be a stream ID")


TABLE: tuple[Option, ...] = (
    Option(
        "writeMode",
        _WRITE,
        "exactlyOnce",
        "'exactlyOnce': rows are written in chunks, each in a transaction that also records it, so that a task or a "
        "batch that is repeated adds nothing twice. 'atomic': the same with all of a task's rows for a stream in one "
        "transaction. 'append': without transactions or records; what is repeated is written again.",
        choice("exactlyonce", "atomic", "append"),
    ),
    Option(
        "saveMode",
        _WRITE,
        "append",
        "For a batch, with mode('append'), since Spark itself refuses its modes 'error' and 'ignore' for Python data "
        "sources: 'error' if the stream exists, 'ignore' to write nothing then.",
        choice("append", "error", "ignore"),
    ),
    Option(
        "writeId",
        _WRITE,
        "",
        "A name for a batch write: a write of that name that is repeated, in whatever run, adds nothing twice. In "
        "foreachBatch: made of the query's and the batch's ID.",
        text,
    ),
    Option(
        "keyColumn",
        _WRITE,
        "",
        "With 'partitions': the column that chooses a row's stream; equal keys go to the same one.",
        text,
    ),
    Option(
        "partitions",
        _WRITE,
        "",
        "Spread rows over so many streams, 'stream:{0}' and so on, by the CRC16 of keyColumn's text.",
        whole(1),
    ),
    Option("maxlen", _WRITE, "", "Trim the stream to so many entries after each chunk.", whole(0)),
    Option("minid", _WRITE, "", "Remove entries with smaller IDs than this after each chunk.", _stream_id),
    Option("retentionMs", _WRITE, "", "Remove entries that are older than this after each chunk.", duration),
    Option("approximate", _WRITE, "true", "Whether trimming may leave a few more, which costs less.", flag),
    Option(
        "refPolicy",
        _WRITE,
        "",
        "What trimming does with entries that are pending in consumer groups (Redis 8.2): 'keepref' leaves them "
        "pending, 'delref' removes them from the groups too, 'acked' trims only what every group has read and "
        "acknowledged.",
        choice("keepref", "delref", "acked"),
    ),
    Option("nomkstream", _WRITE, "false", "Whether a stream that does not exist is an error rather than made.", flag),
    Option(
        "waitReplicas",
        _WRITE,
        "0",
        "A task is done only when so many replicas have its rows (WAIT).",
        whole(0),
    ),
    Option("waitTimeoutMs", _WRITE, "10000", "How long to wait for them; then the task fails.", duration),
    Option("chunkSize", _WRITE, "5000", "At most so many rows are sent before their replies are read.", whole(1)),
    Option(
        "fenceRetentionMs",
        _WRITE,
        "30d",
        "How long a streaming query may rest and still find its records of what it has written.",
        duration,
    ),
)


@dataclass(frozen=True)
class WriteOptions:
    """What a writer is told. `stream` is None where the rows say it; times are in milliseconds."""

    address: Address | Embedded
    stream: str | None
    mode: str = "exactlyonce"
    save_mode: str = "append"
    write_id: str | None = None
    key_column: str | None = None
    partitions: int | None = None
    null_value: str | None = None
    zone: str = time_zones.UTC
    json_field: str | None = None
    maxlen: int | None = None
    minid: str | None = None
    retention: int | None = None
    approximate: bool = True
    ref_policy: str | None = None
    nomkstream: bool = False
    wait_replicas: int = 0
    wait_timeout: int = 10_000
    chunk_size: int = 5000
    fence_retention: int = 30 * 86_400_000


def build(said: dict[str, Any], address: Address | Embedded) -> WriteOptions:
    """The options, checked against each other."""
    if "minid" in said and "retentionMs" in said:
        fail("CONFLICTING_OPTIONS", option="minid", other="retentionMs")
    for one, other in (("keyColumn", "partitions"), ("partitions", "keyColumn"), ("partitions", "stream")):
        if one in said and other not in said:
            fail("INVALID_OPTION", option=one, value=said[one], expected=f"it needs '{other}' as well")
    if said["saveMode"] != "append" and ("stream" not in said or "partitions" in said):
        fail("INVALID_OPTION", option="saveMode", value=said["saveMode"], expected="it needs a single 'stream'")
    if "refPolicy" in said and not {"maxlen", "minid", "retentionMs"} & said.keys():
        expected = "nothing is trimmed: it needs maxlen, minid or retentionMs"
        fail("INVALID_OPTION", option="refPolicy", value=said["refPolicy"], expected=expected)
    if "writeId" in said and said["writeMode"] == "append":
        fail("CONFLICTING_OPTIONS", option="writeId", other="writeMode=append")
    return WriteOptions(
        address=address,
        stream=said.get("stream"),
        mode=said["writeMode"],
        save_mode=said["saveMode"],
        write_id=said.get("writeId"),
        key_column=said.get("keyColumn"),
        partitions=said.get("partitions"),
        null_value=said.get("nullValue"),
        zone=said.get("timeZone", time_zones.UTC),
        json_field=said["valueField"] if said["valueFormat"] == "json" else None,
        maxlen=said.get("maxlen"),
        minid=said.get("minid"),
        retention=said.get("retentionMs"),
        approximate=said["approximate"],
        ref_policy=said.get("refPolicy"),
        nomkstream=said["nomkstream"],
        wait_replicas=said["waitReplicas"],
        wait_timeout=said["waitTimeoutMs"],
        chunk_size=said["chunkSize"],
        fence_retention=said["fenceRetentionMs"],
    )
