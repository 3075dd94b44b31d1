"""Batch records: what a server remembers beside a stream of the batch that a query wrote last, for all of its tasks.

A batch may be attempted more than once: after a restart Spark runs it again, perhaps in other partitions. The record
says which attempt may write, and how far the batch is:

    direct      the tasks of `attempt` write themselves, each behind its fence
    prepared    the tasks of `attempt` have staged rows beside the streams; its driver publishes what `manifest` names
    committed   all rows of the batch are in the stream (`committed` names batch and attempt)

The first transaction of a batch makes the record; every transaction watches it. `sealed` names the batch whose tasks
may write no more, because a driver has begun to end it. A second hash, the *roll*, has the partitions that wrote, with
the batch: fences are found by it. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from spark_streams.write.records.fence import WriterId
from spark_streams.write.rows.digest import RowDigest
from streamclient.commands import Command
from streamwire.stream_id import StreamId

#: The fields of the hash. They are stored on servers: add fields, never rename one.
RECORD_FIELDS = ("batch", "attempt", "stage", "committed", "added", "manifest", "sealed", "floor", "last", "driver")


@dataclass(frozen=True)
class BatchRecord:
    """What a record says; `batch` is -1 where there is none.

    `added`: entries ever added to the stream at that time. `last`: its last ID at the same time; empty if an earlier
    version wrote the record. `floor`: the stream's last ID before the batch. `driver`: the number of the driver that
    has claimed the stream (`Account.driver`); 0 if tasks or an earlier version wrote the record.
    """

    batch: int = -1
    attempt: str = ""
    stage: str = ""
    is_committed: bool = False
    added: int = -1
    manifest: str = ""
    sealed: int = -1
    floor: str = ""
    last: str = ""
    driver: int = 0

    @classmethod
    def parse(cls, values: Sequence[bytes | None]) -> BatchRecord:
        """From the reply to HMGET of `RECORD_FIELDS`."""
        batch, attempt, stage, committed, added, manifest, sealed, floor, last, driver = (
            "" if each is None else each.decode() for each in values
        )
        if not batch:
            return cls(sealed=int(sealed or -1))
        done = committed == commit_mark(int(batch), attempt)
        numbers = {"added": int(added or -1), "sealed": int(sealed or -1), "driver": int(driver or 0)}
        return cls(int(batch), attempt, stage, done, manifest=manifest, floor=floor, last=last, **numbers)

    def allows(self, writer: WriterId, stage: str) -> bool:
        """Whether this attempt may write, in that stage."""
        if self.is_committed or (stage == "direct" and self.is_sealed(writer)):
            return False
        return (self.batch, self.attempt, self.stage) == (writer.batch, writer.attempt, stage)

    def is_sealed(self, writer: WriterId) -> bool:
        """Whether the tasks of the writer's batch may write no more."""
        return self.sealed >= writer.batch


def record_key(writer: WriterId, stream: bytes) -> bytes:
    """The key of the record beside the stream."""
    return writer.beside(stream, b"batch")


def roll_key(writer: WriterId, stream: bytes) -> bytes:
    """The key of the roll beside the stream."""
    return writer.beside(stream, b"roll")


def commit_mark(batch: int, attempt: str) -> str:
    """What `committed` says of a batch that this attempt has finished."""
    return f"{batch}:{attempt}"


def claim(
    writer: WriterId,
    stream: bytes,
    stage: str,
    added: int,
    last: StreamId,
    floor: str,
    manifest: str = "",
    driver: int = 0,
) -> Command:
    """The HSET that lets an attempt write."""
    words: list[bytes | str | int] = ["batch", writer.batch, "attempt", writer.attempt, "stage", stage]
    words += ["added", added, "last", str(last), "floor", floor, "manifest", manifest, "driver", driver]
    return ("HSET", record_key(writer, stream), *words)


@dataclass(frozen=True)
class TaskRows:
    """What one task brought to one stream.

    `digest`: of all of its rows. `base`: of those that are in the stream already. The others were staged: they are
    `chunks` chunks in the hash `key`. `differs`: the task did not bring the rows of its fence, and staged nothing.
    `floor`: the stream's last ID when the task came to stage.
    """

    stream: bytes
    partition: int
    digest: RowDigest
    base: RowDigest
    key: bytes = b""
    chunks: int = 0
    differs: bool = False
    floor: str = ""


def manifest_of(staged: Sequence[TaskRows]) -> str:
    """What a record says of the rows that an attempt has staged for its stream."""
    rows = [{**asdict(each), "stream": each.stream.hex(), "key": each.key.hex()} for each in staged]
    return json.dumps(rows, separators=(",", ":"))


def parse_manifest(text: str) -> list[TaskRows]:
    """The inverse of `manifest_of`."""
    return [
        TaskRows(
            **{
                **each,
                "stream": bytes.fromhex(each["stream"]),
                "key": bytes.fromhex(each["key"]),
                "digest": RowDigest(**each["digest"]),
                "base": RowDigest(**each["base"]),
            }
        )
        for each in json.loads(text or "[]")
    ]
