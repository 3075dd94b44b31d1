"""Records of exactly-once writes: their keys on servers, and the stored forms of their values.

    fence           number of a task's rows in the stream, and their digest
    batch record    the attempt that may write to the stream, and the stage
    roll            the partitions that have a fence, each with its batch
    staged rows     rows for the driver; expires after a day
    ledger          the streams of the batch, its drivers, and whether it is committed
    writes          the executions that write from foreachBatch, in their order

A fence also has the field `chunk:N` for each of its transactions: its value after the transaction. `withdrawal` uses
these values to find the rows of an interrupted batch, and to take the transactions back one by one.

`streamclient.record_keys` defines the keys' beginnings. Field names are stored on servers, so never rename a field;
only add new fields. `protocol` decides which values follow on which.

A row's hash depends only on its fields and its own ID, so hashes can be compared regardless of chunk, task and sending
method. A digest of rows has two halves of 64 bits: one depends on the order of the rows, the other does not. Digests
detect accidents, not attacks.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np

from streamclient import record_keys
from streamclient.codec.encode import Column
from streamclient.commands import Command
from streamwire.stream_id import ZERO, StreamId

# --- Digests

_MASK = (1 << 64) - 1
_MARK = "o"  # earlier forms began with "m", with "n", or with no letter
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 divided by the golden ratio, which spreads bits
_HALF, _THIRD = np.uint64(32), np.uint64(29)  # shifts that mix high bits into low bits
_WORD = 8  # bytes that are hashed at a time
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], np.uint64)
_OWN_ID = b"\0id"  # in place of a field's name


def _factors(count: int) -> Any:
    """Return odd factors. The factors are part of values stored on servers, so they must never change."""
    at = np.arange(1, count + 1, dtype=np.uint64) * _ODD
    at ^= at >> np.uint64(30)
    at *= np.uint64(0xBF58476D1CE4E5B9)
    at ^= at >> np.uint64(27)
    at *= np.uint64(0x94D049BB133111EB)
    return (at ^ (at >> np.uint64(31))) | np.uint64(1)


_FACTORS = _factors(256)  # one for each `_WORD` bytes of a value; the remaining bytes are hashed by BLAKE2


def row_hashes(columns: Sequence[Column], pairs: tuple[Any, Any, Any] | None, ids: Any | None, rows: int) -> Any:
    """Return the hash of each row as an array of uint64. A hash covers the row's fields in any order, and the row's own
    ID.

    `columns`, `pairs` and `ids` are arguments of `streamclient.codec.encode.encode_adds`.
    """
    hashes = np.zeros(rows, np.uint64)
    if not rows:
        return hashes
    for name, values in columns:
        hashes += _present(values, _value_hashes(values) * _seed(name))
    if ids is not None:
        hashes += _present(ids, _value_hashes(ids) * _seed(_OWN_ID))
    if pairs is not None and len(pairs[1]):
        offsets, names, values = pairs
        known = names.dictionary_encode()
        seeds = np.array([_seed(name) for name in known.dictionary.to_pylist()], np.uint64)
        sums = np.zeros(len(names) + 1, np.uint64)
        np.cumsum(_value_hashes(values) * seeds[known.indices.to_numpy()], out=sums[1:])
        bounds = offsets.to_numpy()
        hashes += sums[bounds[1:]] - sums[bounds[:-1]]
    hashes ^= hashes >> _HALF
    hashes *= _FACTORS[0]
    hashes ^= hashes >> _THIRD
    return hashes


@functools.lru_cache(maxsize=4096)
def _seed(name: bytes) -> np.uint64:
    """Return the factor for the values of a field. It is odd and must never change."""
    return np.uint64(int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") | 1)


def _present(values: Any, hashes: Any) -> Any:
    """Return the hashes, with 0 for missing values."""
    return hashes * np.asarray(values.is_valid()) if values.null_count else hashes


def _value_hashes(values: Any) -> Any:
    """Return the hash of each value of a binary array."""
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    begin, end = int(bounds[0]), int(bounds[-1])
    text = np.zeros(end - begin + _WORD, np.uint8)  # padded, so that eight bytes can be read from any position
    if end > begin:
        text[: end - begin] = np.frombuffer(data, np.uint8, end - begin, begin)
    at, lengths = bounds[:-1] - begin, np.diff(bounds)
    hashes = (lengths + 1).astype(np.uint64) * _ODD
    words = np.ndarray((len(text) - _WORD + 1,), np.dtype("<u8"), text, 0, (1,))
    for number in range(min(len(_FACTORS), -(-int(lengths.max()) // _WORD))):
        left = lengths - number * _WORD
        if int(left.min()) > 0:
            hashes += _mixed(words[at] & _MASKS[np.minimum(left, _WORD)], number)
        else:
            rows = np.flatnonzero(left > 0)
            hashes[rows] += _mixed(words[at[rows]] & _MASKS[np.minimum(left[rows], _WORD)], number)
        at = at + _WORD
    for row in np.flatnonzero(lengths > _WORD * len(_FACTORS)).tolist():
        rest = text[int(bounds[row]) - begin + _WORD * len(_FACTORS) : int(bounds[row + 1]) - begin]
        hashes[row : row + 1] += _seed(hashlib.blake2b(rest.tobytes()).digest())
    hashes ^= hashes >> _HALF
    return hashes


def _mixed(words: Any, number: int) -> Any:
    words ^= words >> _HALF
    words *= _FACTORS[number]
    return words


@dataclass(frozen=True)
class RowDigest:
    """Digest of a number of rows. `ordered` depends on their order, `total` does not."""

    rows: int = 0
    ordered: int = 0
    total: int = 0

    def plus(self, hashes: Any) -> RowDigest:
        """Return the digest of this digest's rows followed by rows with the given hashes."""
        if not len(hashes):
            return self
        weights = np.arange(self.rows, self.rows + len(hashes), dtype=np.uint64) * _ODD
        weights ^= weights >> _HALF  # not linear in the position, so that exchanged rows change the digest
        ordered = int(np.add.reduce((hashes ^ (hashes >> _THIRD)) * weights))
        total = int(np.add.reduce(hashes))
        return RowDigest(self.rows + len(hashes), (self.ordered + ordered) & _MASK, (self.total + total) & _MASK)

    def joined(self, other: RowDigest) -> RowDigest:
        """Return the digest of both digests' rows. Only its `rows` and `total` are defined."""
        return RowDigest(self.rows + other.rows, 0, (self.total + other.total) & _MASK)

    def same_rows(self, other: RowDigest) -> bool:
        """Return whether both digests are of the same rows in any order."""
        return (self.rows, self.total) == (other.rows, other.total)

    @property
    def text(self) -> str:
        """The stored form."""
        return f"{_MARK}{self.ordered:016x}{self.total:016x}"

    @classmethod
    def parse(cls, rows: int, text: str) -> RowDigest | None:
        """Return the digest of `rows` rows that `text` describes; None if an earlier version stored it. An empty text
        is the digest of no rows.
        """
        if not text:
            return cls()
        if not text.startswith(_MARK):
            return None
        return cls(rows, int(text[1:17], 16), int(text[17:33], 16))


# --- Names of fields

#: The reply to HMGET.
Values = Sequence[bytes | None]
T = TypeVar("T", bytes, str)
FENCE_FIELDS = ("batch", "rows", "digest", "chunk", "refused")
RECORD_FIELDS = (
    "batch",
    "attempt",
    "stage",
    "committed",
    "added",
    "manifest",
    "sealed",
    "floor",
    "last",
    "driver",
    "sealer",
)
#: Lifetime of staged rows, in milliseconds.
STAGED_MS = 86_400_000
_REMOVED_AT_ONCE = 1000  # maximum number of fields in one HDEL
#: Field of a fence with its value after a transaction, and field of a ledger with what was withdrawn.
_CHUNK, WITHDRAWN = "chunk:", "withdrawn:"

# --- Keys


@dataclass(frozen=True)
class WriterId:
    """Identity of a task: the name, the batch and the partition.

    `name` is the query's ID, with a number for a write from foreachBatch. A batch write has a generated name, or
    the name that the user gave it. `attempt` is the same for all tasks that were planned together, and changes after a
    restart.
    """

    name: str
    batch: int
    partition: int
    attempt: str = ""

    def fence_key(self, stream: bytes, partition: int | None = None) -> bytes:
        """Return the key of the fence of this task, or of another partition."""
        return self._beside(stream, b"%d" % (self.partition if partition is None else partition))

    def record_key(self, stream: bytes) -> bytes:
        """Return the key of the batch record."""
        return self._beside(stream, b"batch")

    def roll_key(self, stream: bytes) -> bytes:
        """Return the key of the roll."""
        return self._beside(stream, b"roll")

    def staged_key(self, stream: bytes, name: str) -> bytes:
        """Return the key under which a task stages rows. `name`: a unique name for these rows."""
        return self._beside(stream, b"staged:%b" % name.encode())

    @property
    def ledger_key(self) -> bytes:
        """The key of the ledger."""
        return record_keys.of_query(self.name.encode(), b"ledger")

    def _beside(self, stream: bytes, kind: bytes) -> bytes:
        """Return a key in the stream's slot."""
        return b"%b%b:%b" % (record_keys.beside(stream), self.name.encode(), kind)


def writes_key(query: str) -> bytes:
    """Return the key of the list of executions that write from a query's foreachBatch."""
    return record_keys.of_query(query.encode(), b"writes")


def shown(key: Any) -> str:
    """Return the text of a key for a message."""
    return bytes(key).decode("utf-8", "backslashreplace")


# --- A fence


@dataclass(frozen=True)
class FenceState:
    """Value of a fence, with the default values if there is no fence.

    `rows`: number of rows of the batch `batch` that are in the stream. `digest`: the digest of these rows. `chunk`:
    number of transactions that wrote them. `refused`: the number of a row that the server refused, and why. `old`: the
    number of transactions of the batch before, whose fields are deleted; not stored.
    """

    batch: int = -1
    rows: int = 0
    digest: str = ""
    chunk: int = 0
    refused: str = ""
    old: int = field(default=0, compare=False)

    @classmethod
    def parse(cls, values: Values) -> FenceState:
        """Return the state in a reply to HMGET of `FENCE_FIELDS`."""
        batch, rows, digest, chunk, refused = (b"" if value is None else value for value in values)
        if not batch:
            return cls()
        reason = refused.decode("utf-8", "replace")
        return cls(int(batch), int(rows), digest.decode(), int(chunk), reason)

    @classmethod
    def history(cls, found: Sequence[bytes]) -> list[FenceState]:
        """Return the value after each transaction, from the reply to HGETALL of a fence. The last one is the current
        value. Transactions of earlier versions of the connector are missing.
        """
        fields = {name.decode(): value for name, value in zip(found[::2], found[1::2], strict=True)}
        now, states = cls.parse([fields.get(name) for name in FENCE_FIELDS]), list[FenceState]()
        for chunk in range(1, now.chunk):
            batch, rows, digest = fields.get(f"{_CHUNK}{chunk}", b"-1 0 -").decode().split(" ")
            if int(batch) == now.batch and int(rows) < now.rows:
                states.append(cls(now.batch, int(rows), digest, chunk))
        return [*states, now]

    def after(self, digest: RowDigest) -> FenceState:
        """Return the value after the next transaction. `digest`: the digest of all rows until then."""
        return FenceState(self.batch, digest.rows, digest.text, self.chunk + 1, old=self.old)

    def rows_in(self, batch: int) -> int:
        """Return the number of a batch's rows that are certainly in the stream; 0 if the server refused a row."""
        return self.rows if self.batch == batch and not self.refused else 0

    @property
    def row_digest(self) -> RowDigest:
        """The digest of the fence's rows; an empty digest if its stored form is unknown."""
        return RowDigest.parse(self.rows, self.digest) or RowDigest()

    def command(self, key: bytes) -> Command:
        """Return the HSET that stores this value."""
        words: list[bytes | str | int] = ["HSET", key]
        for name in FENCE_FIELDS:
            words += [name, str(getattr(self, name))]
        return (*words, f"{_CHUNK}{self.chunk}", f"{self.batch} {self.rows} {self.digest}")

    def drop_old(self, key: bytes) -> list[Command]:
        """Return the commands that delete the fields of the batch before."""
        names = [f"{_CHUNK}{chunk}" for chunk in range(2, self.old + 1)]
        return [("HDEL", key, *part) for part in parts(names)]


def parts(names: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the names of fields in parts for one HDEL each."""
    yield from (names[at : at + _REMOVED_AT_ONCE] for at in range(0, len(names), _REMOVED_AT_ONCE))


# --- A batch record, with the state of its stream


@dataclass(frozen=True)
class BatchRecord:
    """Value of a batch record; `batch` is -1 without a record.

    `added`: entries ever added to the stream when the record was written. `last`: the stream's last ID at that time;
    empty if an earlier version wrote the record. `floor`: the stream's last ID before the batch. `manifest`: the rows
    to publish (`manifest_of`). `sealed`: the last batch whose tasks may no longer write, or -1. `driver`: the number of
    the driver that has claimed the stream (`Account.driver`); 0 if tasks or an earlier version wrote the record.
    `sealer`: the attempt that has sealed the stream last. It relies on what it has read since then, so no other attempt
    may take back rows.
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
    sealer: str = field(default="", compare=False)

    @classmethod
    def parse(cls, values: Values) -> BatchRecord:
        """Return the record in a reply to HMGET of `RECORD_FIELDS`."""
        batch, attempt, stage, committed, added, manifest, sealed, floor, last, driver, sealer = (
            "" if each is None else each.decode() for each in values
        )
        if not batch:
            return cls(sealed=int(sealed or -1), sealer=sealer)
        done = committed == f"{batch}:{attempt}"
        return cls(
            int(batch),
            attempt,
            stage,
            done,
            int(added or -1),
            manifest,
            int(sealed or -1),
            floor,
            last,
            int(driver or 0),
            sealer,
        )


@dataclass(frozen=True)
class StreamState:
    """A stream at one moment.

    `added`: entries ever added; 0 if the stream does not exist, -1 if unknown (servers before Redis 7). `first` and
    `last`: the first entry's ID, and the last ID ever generated.
    """

    added: int = -1
    length: int = 0
    first: StreamId = ZERO
    last: StreamId = ZERO


@dataclass(frozen=True)
class Evidence:
    """A stream and the records next to it, as they were read. `fences`: the fences of this batch, by partition.

    `roll`: the partitions that have had a fence of this batch. `is_gone`: whether the stream whose rows the fences
    count was deleted.
    """

    record: BatchRecord = field(default_factory=BatchRecord)
    fences: dict[int, FenceState] = field(default_factory=dict)
    stream: StreamState = field(default_factory=StreamState)
    is_gone: bool = False
    roll: frozenset[int] = frozenset()


# --- Staged rows


@dataclass(frozen=True)
class TaskRows:
    """The rows that one task has for one stream.

    `digest`: digest of all of these rows. `base`: digest of the rows that are already in the stream. The other rows
    were staged as `chunks` chunks in the hash `key`. `differs`: whether the task's rows differ from the rows that its
    fence counts, so that the task staged nothing. `floor`: the stream's last ID when the task started to stage.
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
    """Return a description of staged rows as JSON, for a batch record."""
    rows = [{**asdict(each), "stream": each.stream.hex(), "key": each.key.hex()} for each in staged]
    return json.dumps(rows, separators=(",", ":"))


def parse_manifest(text: str) -> list[TaskRows]:
    """Parse the result of `manifest_of`."""
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


@dataclass(frozen=True)
class ChunkState:
    """The value of a task's fence after a staged chunk is in the stream.

    `movable`: whether the server can move the chunk itself.
    """

    digest: RowDigest
    movable: bool

    @property
    def text(self) -> str:
        """The stored form."""
        return f"{self.digest.rows} {self.digest.text} {int(self.movable)}"

    @classmethod
    def parse(cls, text: bytes) -> ChunkState:
        """Parse the stored form (`text`)."""
        rows, digest, movable = text.decode().split(" ")
        return cls(RowDigest.parse(int(rows), digest) or RowDigest(), movable == "1")


def staged_chunk(key: bytes, number: int, rows: bytes, state: ChunkState, index: bytes) -> list[Command]:
    """Return the commands that stage a chunk: its encoded rows, its state, and the index of the rows."""
    words = (f"{number}", rows, f"{number}:state", state.text, f"{number}:index", index)
    return [("HSET", key, *words), ("PEXPIRE", key, STAGED_MS)]


def staged_states(rows: TaskRows) -> Command:
    """Return the command that asks for the state of each chunk."""
    return ("HMGET", rows.key, *(f"{number}:state" for number in range(rows.chunks)))


def parse_states(replies: Values) -> list[ChunkState] | None:
    """Return the states in the reply to `staged_states`; None if staged rows are gone."""
    return None if None in replies else [ChunkState.parse(each) for each in replies if each is not None]


# --- The ledger


@dataclass(frozen=True)
class Account:
    """Value of a ledger, for one batch.

    `streams`: the batch's streams. `staged`: keys of rows staged for this batch or earlier batches. `prepared`: the
    last attempt that claimed all streams, or empty. `driver`: the number of this attempt's driver. `rows`: digest of
    the batch's rows; None if the batch is not committed or the digest is unknown. `old`: fields to delete.
    `committed`: the last committed batch, or -1.
    """

    streams: tuple[bytes, ...] = ()
    staged: tuple[bytes, ...] = ()
    prepared: str = ""
    is_committed: bool = False
    rows: RowDigest | None = None
    old: tuple[bytes, ...] = ()
    driver: int = 0
    committed: int = -1

    @classmethod
    def parse(cls, found: Sequence[bytes], writer: WriterId) -> Account:
        """Return the value of the writer's batch, from the reply to HGETALL of the ledger."""
        batch = writer.batch
        touched, staged, old = [], [], []
        prepared, committed = "", -1
        rows: RowDigest | None = None
        for name, value in zip(found[::2], found[1::2], strict=True):
            kind, _, rest = name.partition(b":")
            if kind == b"staged":
                if int(value) <= batch:
                    staged.append(rest)
                    old.append(name)
                continue
            if kind == b"committed":
                committed = int(value)
                continue
            if kind == WITHDRAWN[:-1].encode():
                continue
            number, _, stream = rest.partition(b":")
            if number and int(number) < batch:
                old.append(name)
            elif number and int(number) == batch and kind == b"stream":
                touched.append(stream)
            elif number and int(number) == batch and kind == b"prepared":
                prepared = value.decode()
            elif number and int(number) == batch and kind == b"rows":
                count, _, digest = value.decode().partition(" ")
                rows = RowDigest.parse(int(count), digest)
        done = committed == batch
        driver, _ = driver_number(found, writer)
        known = rows if done else None
        return cls(tuple(touched), tuple(staged), prepared, done, known, tuple(old), driver, committed)


def driver_number(found: Sequence[bytes], writer: WriterId) -> tuple[int, bool]:
    """Return the number of the writer's driver and True, from the reply to HGETALL of the ledger.

    If the driver has no number yet, return the number to try and False.
    """
    prefix = b"driver:%d:" % writer.batch
    fields = zip(found[::2], found[1::2], strict=True)
    drivers = {int(name[len(prefix) :]): value.decode() for name, value in fields if name.startswith(prefix)}
    numbers = [number for number, attempt in drivers.items() if attempt == writer.attempt]
    return (max(numbers), True) if numbers else (max(drivers, default=0) + 1, False)


def open_batch(found: Sequence[bytes]) -> int | None:
    """Return the batch in the reply to HGETALL of a ledger that has streams and is not committed; None without one."""
    fields = dict(zip(found[::2], found[1::2], strict=True))
    batches = [int(name.split(b":", 2)[1]) for name in fields if name.startswith(b"stream:")]
    last = max(batches, default=-1)
    return last if last > int(fields.get(b"committed", -1)) else None


def withdrawals(found: Sequence[bytes]) -> list[tuple[int, str]]:
    """Return the withdrawn batches with their notes, in order, from the reply to HGETALL of a ledger."""
    notes: list[tuple[int, int, str]] = []
    for name, value in zip(found[::2], found[1::2], strict=True):
        if name.startswith(WITHDRAWN.encode()):
            _, batch, driver = name.split(b":")
            notes.append((int(batch), int(driver), value.decode()))
    return [(batch, note) for batch, _, note in sorted(notes)]
