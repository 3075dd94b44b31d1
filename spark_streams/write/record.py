"""Batch records: what a server remembers beside a stream of the batch that a query wrote last, for all of its tasks.

A batch may be attempted more than once: after a restart Spark runs it again, perhaps in other partitions. The record
says which attempt may write, and how far the batch is:

    direct      the tasks of `attempt` write themselves, each behind its fence
    prepared    the tasks of `attempt` have staged rows beside the streams; its driver publishes what `manifest` names
    committed   all rows of the batch are in the stream (`committed` names batch and attempt)

The first transaction of a batch makes the record; every transaction watches it. So the tasks of an attempt that was
replaced cannot write any more. A second hash, the *roll*, has the partitions that wrote, with the batch: fences are
found by it. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from spark_streams.client.link import Command
from spark_streams.write.digest import RowDigest
from spark_streams.write.fence import WriterId

RECORD_FIELDS = ("batch", "attempt", "stage", "committed", "added", "manifest")
"""The fields of the hash. They are stored on servers: add fields, never rename one."""


@dataclass(frozen=True)
class BatchRecord:
    """What a record says; `batch` is -1 where there is none. `added`: entries ever added to the stream at that time."""

    batch: int = -1
    attempt: str = ""
    stage: str = ""
    is_committed: bool = False
    added: int = -1
    manifest: str = ""

    @classmethod
    def parse(cls, values: Sequence[bytes | None]) -> BatchRecord:
        """From the reply to HMGET of `RECORD_FIELDS`."""
        batch, attempt, stage, committed, added, manifest = ("" if each is None else each.decode() for each in values)
        if not batch:
            return cls()
        done = committed == commit_mark(int(batch), attempt)
        return cls(int(batch), attempt, stage, done, int(added or -1), manifest)

    def allows(self, writer: WriterId, stage: str) -> bool:
        """Whether this attempt may write, in that stage."""
        return (self.batch, self.attempt, self.stage) == (writer.batch, writer.attempt, stage) and not self.is_committed


def record_key(writer: WriterId, stream: bytes) -> bytes:
    """The key of the record beside the stream."""
    return writer.beside(stream, b"batch")


def roll_key(writer: WriterId, stream: bytes) -> bytes:
    """The key of the roll beside the stream."""
    return writer.beside(stream, b"roll")


def commit_mark(batch: int, attempt: str) -> str:
    """What `committed` says of a batch that this attempt has finished."""
    return f"{batch}:{attempt}"


def claim(writer: WriterId, stream: bytes, stage: str, added: int, manifest: str = "") -> Command:
    """The HSET that lets an attempt write."""
    record = record_key(writer, stream)
    words = ("batch", writer.batch, "attempt", writer.attempt, "stage", stage, "added", added, "manifest", manifest)
    return ("HSET", record, *words)


@dataclass(frozen=True)
class StagedRows:
    """Rows of one task for one stream that were staged: `chunks` fields of the hash `key`.

    They come after `base`, the rows that the task's fence had. `digest`: of all of the task's rows. `differs`: the task
    did not bring the rows of its fence, and staged nothing. `floor`: the
    stream's last ID before an overwriting write.
    """

    stream: bytes
    partition: int
    key: bytes
    chunks: int
    base: RowDigest
    digest: RowDigest
    differs: bool = False
    floor: str = ""


def manifest_of(staged: Sequence[StagedRows], streams: Sequence[bytes]) -> str:
    """What a record says of an attempt: its staged rows for this stream, and the streams it writes to."""
    rows = [{**asdict(each), "stream": each.stream.hex(), "key": each.key.hex()} for each in staged]
    return json.dumps({"streams": [name.hex() for name in streams], "staged": rows}, separators=(",", ":"))


def parse_manifest(text: str) -> tuple[list[StagedRows], list[bytes]]:
    """The inverse of `manifest_of`."""
    given: dict[str, Any] = json.loads(text)
    staged = [
        StagedRows(
            **{
                **each,
                "stream": bytes.fromhex(each["stream"]),
                "key": bytes.fromhex(each["key"]),
                "base": RowDigest(**each["base"]),
                "digest": RowDigest(**each["digest"]),
            }
        )
        for each in given["staged"]
    ]
    return staged, [bytes.fromhex(name) for name in given["streams"]]
