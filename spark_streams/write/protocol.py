"""Protocol of exactly-once writes: the states of a stream, and the transitions.

`TRANSITIONS` maps the state of a stream and an event to the next state. `allows` and `claim` refuse WRITE, PUBLISH,
WITHDRAW and CLAIM in other states; `is_open` calls `allows` before rows are added. SEAL and COMMIT are not looked up,
because the ledger orders the drivers. The next states only document the protocol: commands change the records, from
which `state_of` derives the state.

Each event is a method of `Protocol` that returns the commands that change the records (`records`). Tasks and drivers
execute these commands, under WATCH of the values that were read if the transition depends on them.
docs/design/exactly-once.md explains why no interleaving writes a row twice or drops a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from shlex import quote
from typing import Any, NoReturn

from spark_streams.config.write import WriteOptions
from spark_streams.errors import fail
from spark_streams.write.records import (
    WITHDRAWN,
    Account,
    BatchRecord,
    Evidence,
    FenceState,
    RowDigest,
    StreamState,
    TaskRows,
    Values,
    WriterId,
    manifest_of,
    parts,
    shown,
    writes_key,
)
from streamclient.commands import Command
from streamclient.config.address import Address
from streamwire.stream_id import ZERO, StreamId

#: Shortest retention of records, in milliseconds, because a task may pause for a long time.
RECORD_MS = 86_400_000
#: Shortest retention of the records of a batch write without a name, in milliseconds.
_UNNAMED_MS = 30 * RECORD_MS
#: Retention of a finished batch write's fences, for copies of its tasks that are still running. The write's other
#: records show for a day that it is finished.
_LATE_MS = 600_000

# --- States


class State(Enum):
    """The state of a stream in a batch."""

    NEW = "there is no record of the batch"
    DIRECT = "tasks of one attempt write, each with its own fence"
    SEALED = "a driver has begun to end the batch, and tasks may no longer write"
    PREPARED = "a driver publishes the rows that the record's manifest names"
    COMMITTED = "all rows of the batch are in the stream"


class Event(Enum):
    """Event that changes the state."""

    WRITE = "a task adds rows"
    SEAL = "a driver excludes tasks"
    CLAIM = "a driver claims the stream for the rows that its attempt has staged"
    PUBLISH = "a driver adds staged rows"
    COMMIT = "a driver marks the batch as complete"
    WITHDRAW = "a user takes back the rows of the last transaction that a fence counts"


TRANSITIONS: Mapping[tuple[State, Event], State] = {
    (State.NEW, Event.WRITE): State.DIRECT,
    (State.NEW, Event.SEAL): State.SEALED,
    (State.DIRECT, Event.WRITE): State.DIRECT,
    (State.DIRECT, Event.SEAL): State.SEALED,
    (State.DIRECT, Event.COMMIT): State.COMMITTED,  # without a ledger, no other attempt may write
    (State.SEALED, Event.SEAL): State.SEALED,
    (State.SEALED, Event.CLAIM): State.PREPARED,
    (State.SEALED, Event.COMMIT): State.COMMITTED,  # nothing is left to publish
    (State.PREPARED, Event.SEAL): State.PREPARED,
    (State.PREPARED, Event.CLAIM): State.PREPARED,  # a later driver, if the earlier driver has published nothing
    (State.PREPARED, Event.PUBLISH): State.PREPARED,
    (State.PREPARED, Event.COMMIT): State.COMMITTED,
    (State.PREPARED, Event.WITHDRAW): State.PREPARED,
    (State.COMMITTED, Event.SEAL): State.COMMITTED,
    (State.COMMITTED, Event.CLAIM): State.PREPARED,  # the stream was deleted meanwhile, or the rows are withdrawn
    (State.COMMITTED, Event.COMMIT): State.COMMITTED,
}


def state_of(record: BatchRecord, batch: int) -> State:
    """Return the state of the stream in a batch. A batch after the record's batch is new unless it is sealed."""
    if record.batch == batch and record.is_committed:
        return State.COMMITTED
    if record.batch == batch and record.stage == "prepared":
        return State.PREPARED
    if record.sealed >= batch:
        return State.SEALED
    return State.DIRECT if record.batch == batch else State.NEW


def allows(record: BatchRecord, writer: WriterId, event: Event) -> bool:
    """Return whether the writer's attempt may change the rows by this event."""
    state = state_of(record, writer.batch)
    is_ours = state is State.NEW or record.attempt == writer.attempt
    return (state, event) in TRANSITIONS and is_ours


# --- Transitions


@dataclass(frozen=True)
class Protocol:
    """The transitions of one batch, for one of its tasks or for its driver.

    `keep_ms`: retention of records; 0 keeps them permanently. `has_ledger`: whether the write has a ledger. Without a
    ledger, no other attempt can write under this name.
    """

    writer: WriterId
    keep_ms: int = 0
    has_ledger: bool = True

    @classmethod
    def of(cls, writer: WriterId, options: WriteOptions, lasting: bool) -> Protocol:
        """Return the protocol for these options. `lasting`: whether the write may be repeated under its name."""
        return cls(writer, retention_ms(options, lasting), lasting or options.mode == "staged")

    def of_partition(self, partition: int) -> Protocol:
        """Return the protocol for another partition of the batch."""
        return replace(self, writer=replace(self.writer, partition=partition))

    def _keep(self, *keys: bytes) -> list[Command]:
        return [("PEXPIRE", key, self.keep_ms) for key in keys] if self.keep_ms else []

    def check_order(self, stream: bytes, record: BatchRecord) -> None:
        """Raise FENCE_AHEAD if the record is of a later batch."""
        writer = self.writer
        if record.batch > writer.batch:
            key = writer.record_key(stream)
            fail("FENCE_AHEAD", stream=shown(stream), fence=shown(key), found=record.batch, batch=writer.batch)

    # Tasks

    def enter(self, streams: Iterable[bytes]) -> list[Command]:
        """Return the commands by which a task registers its streams and then asks for the attempt that may write."""
        if not self.has_ledger:
            return []
        writer, first = self.writer, f"first:{self.writer.batch}"
        return [
            ("HSET", writer.ledger_key, *_fields(f"stream:{writer.batch}:", streams)),
            ("HSETNX", writer.ledger_key, first, writer.attempt),
            *self._keep(writer.ledger_key),
            ("HMGET", writer.ledger_key, first, "committed"),
        ]

    def may_write(self, entered: Values | None) -> bool:
        """Return whether tasks of this attempt may write. `entered`: the last reply to `enter`; None if `enter` has no
        commands.

        Raises BATCH_COMMITTED.
        """
        if entered is None:
            return True
        first, committed = entered
        self._check_committed(int(committed or -1))
        return bool((first or b"").decode() == self.writer.attempt)

    def _check_committed(self, committed: int) -> None:
        if committed > self.writer.batch:
            fail("BATCH_COMMITTED", ledger=shown(self.writer.ledger_key), found=committed, batch=self.writer.batch)

    def is_open(self, stream: bytes, event: Event, found: BatchRecord, entered: BatchRecord) -> bool:
        """Return whether the record is this attempt's own. If not, the next rows open the batch in the stream.

        `found`: the current record. `entered`: the record when the task registered. Raises ATTEMPT_REPLACED if rows may
        not be added.
        """
        state, is_allowed = state_of(found, self.writer.batch), allows(found, self.writer, event)
        if not is_allowed or (state is State.NEW and found != entered):
            fail("ATTEMPT_REPLACED", stream=shown(stream), batch=self.writer.batch)
        return state is not State.NEW

    def write(self, stream: bytes, fence: FenceState, opened: StreamState | None) -> list[Command]:
        """Return the commands that count the rows. They follow the rows in the same transaction.

        `fence`: the fence's state after the rows. `opened`: the stream before the batch, for the batch's first rows in
        the stream; None for later rows.
        """
        writer, keys, commands = self.writer, [self.writer.fence_key(stream)], list[Command]()
        if opened is not None:
            commands.append(self._claimed(stream, "direct", opened.added, opened.last, str(opened.last)))
            keys.append(writer.record_key(stream))
        commands += [*self.enrol(stream, fence), fence.command(keys[0])]
        keys += [writer.roll_key(stream)] if fence.chunk == 1 else []
        return [*commands, *self._keep(*keys)]

    def enrol(self, stream: bytes, fence: FenceState) -> list[Command]:
        """Return the commands that add the partition to the roll; no commands after its first chunk of the batch."""
        if fence.chunk != 1:
            return []
        enrolled = ("HSET", self.writer.roll_key(stream), self.writer.partition, self.writer.batch)
        return [enrolled, *fence.drop_old(self.writer.fence_key(stream))]

    def dismiss(self, stream: bytes) -> list[Command]:
        """Return the commands that delete the partition's fence, and remove the partition from the roll."""
        writer = self.writer
        return [("PEXPIRE", writer.fence_key(stream), 0), ("HDEL", writer.roll_key(stream), writer.partition)]

    def enrolled(self, roll: Values) -> frozenset[int]:
        """Return the partitions that have had a fence of this batch, from the reply to HGETALL of the roll."""
        pairs = zip(roll[::2], roll[1::2], strict=True)
        return frozenset(int(partition or 0) for partition, batch in pairs if int(batch or -1) == self.writer.batch)

    def _claimed(
        self, stream: bytes, stage: str, added: int, last: StreamId, floor: str, manifest: str = "", driver: int = 0
    ) -> Command:
        writer = self.writer
        words: list[bytes | str | int] = ["batch", writer.batch, "attempt", writer.attempt, "stage", stage]
        words += ["added", added, "last", str(last), "floor", floor, "manifest", manifest, "driver", driver]
        return ("HSET", writer.record_key(stream), *words)

    def stage(self, key: bytes) -> list[Command]:
        """Return the commands that a task sends before it stages rows under this key."""
        if not self.has_ledger:
            return []
        ledger = self.writer.ledger_key
        return [("HSET", ledger, b"staged:%b" % key, self.writer.batch), *self._keep(ledger)]

    # The driver

    def close(self, streams: Iterable[bytes], driver: int) -> list[Command]:
        """Return the commands by which a driver starts to end the batch: no task may start to write after
        these commands.

        `driver`: the number that the driver tries to take. The last reply is the ledger. `streams`: streams for which
        the driver's own tasks have rows.
        """
        ledger, batch = self.writer.ledger_key, self.writer.batch
        return [
            ("HSET", ledger, f"first:{batch}", b"", *_fields(f"stream:{batch}:", streams)),
            ("HSETNX", ledger, f"driver:{batch}:{driver}", self.writer.attempt),
            *self._keep(ledger),
            ("HGETALL", ledger),
        ]

    def account(self, found: Sequence[bytes]) -> Account:
        """Return the value of the ledger, from the last reply to `close`. Raises BATCH_COMMITTED."""
        account = Account.parse(found, self.writer)
        self._check_committed(account.committed)
        return account

    def seal(self, stream: bytes) -> list[Command]:
        """Return the commands that exclude the tasks of the batch from the stream."""
        if not self.has_ledger:
            return []
        writer = self.writer
        return [("HSET", writer.record_key(stream), "sealed", writer.batch, "sealer", writer.attempt)]

    def check_driver(self, account: Account, stream: bytes, record: BatchRecord) -> None:
        """Raise ATTEMPT_REPLACED if a later driver of the batch has claimed the stream."""
        if record.batch == self.writer.batch and record.driver > account.driver:
            fail("ATTEMPT_REPLACED", stream=shown(stream), batch=self.writer.batch)

    def claim(
        self, stream: bytes, seen: Evidence, account: Account, staged: Sequence[TaskRows], now: Sequence[Values]
    ) -> tuple[list[Command], BatchRecord | None]:
        """Return the commands that write this attempt and its staged rows into the record, and the new record.

        `now`: the record, the roll and the fences of `seen`, as read under WATCH. The record is None if these values
        have changed since they were seen, or if their state allows no claim. If this attempt has already claimed the
        stream, return no commands and the current record. Raises ATTEMPT_REPLACED.
        """
        writer, found = self.writer, BatchRecord.parse(now[0])
        if allows(found, writer, Event.PUBLISH):
            return [], found
        self.check_driver(account, stream, found)
        fences = [FenceState.parse(each) for each in now[2:]]
        if found != seen.record or fences != [*seen.fences.values()] or self.enrolled(now[1]) != seen.roll:
            return [], None
        if (state_of(found, writer.batch), Event.CLAIM) not in TRANSITIONS:
            return [], None
        commands: list[Command] = []
        if seen.is_gone:
            commands += [each for partition in seen.fences for each in self.of_partition(partition).dismiss(stream)]
        if found.is_committed:
            commands.append(("HSET", writer.record_key(stream), "committed", ""))
        is_again = found.batch == writer.batch and not seen.is_gone
        floor, manifest = found.floor if is_again else str(_floor(seen, staged)), manifest_of(staged)
        added, last = max(seen.stream.added, 0), seen.stream.last
        commands.append(self._claimed(stream, "prepared", added, last, floor, manifest, account.driver))
        claimed = replace(
            found,
            batch=writer.batch,
            attempt=writer.attempt,
            stage="prepared",
            is_committed=False,
            floor=floor,
            manifest=manifest,
            driver=account.driver,
        )
        return [*commands, *self._keep(writer.record_key(stream))], claimed

    def ledger_reads(self, account: Account) -> Command:
        """Return the command whose reply `prepare`, `finish` and `release` need."""
        batch = self.writer.batch
        return ("HMGET", self.writer.ledger_key, f"prepared:{batch}", f"driver:{batch}:{account.driver + 1}")

    def _prepared(self, now: Values) -> str:
        """Return the attempt that has recorded its claims. Raises ATTEMPT_REPLACED if there is a later driver."""
        prepared, later = now
        if later is not None:
            fail("ATTEMPT_REPLACED", stream=shown(self.writer.ledger_key), batch=self.writer.batch)
        return (prepared or b"").decode()

    def prepare(self, account: Account, now: Values) -> list[Command]:
        """Return the commands that record that all streams are claimed. Raises ATTEMPT_REPLACED if there is a later
        driver, or if another attempt has recorded its claims meanwhile.
        """
        found, attempt, ledger = self._prepared(now), self.writer.attempt, self.writer.ledger_key
        if found not in (account.prepared, attempt):
            fail("ATTEMPT_REPLACED", stream=shown(ledger), batch=self.writer.batch)
        return [] if found == attempt else [("HSET", ledger, f"prepared:{self.writer.batch}", attempt)]

    def publish(self, stream: bytes, fence: FenceState) -> list[Command]:
        """Return the commands that follow staged rows if the server itself moves and counts the rows."""
        keys = [self.writer.fence_key(stream), *([self.writer.roll_key(stream)] if fence.chunk == 1 else [])]
        return [*self.enrol(stream, fence), *self._keep(*keys)]

    def commit(self, seen: Mapping[bytes, Evidence]) -> list[Command]:
        """Return the commands that mark the batch as complete in each stream's record."""
        writer, batch, commands = self.writer, self.writer.batch, list[Command]()
        for stream, each in seen.items():
            record, state = writer.record_key(stream), each.stream
            if each.record.batch == batch:
                mark = ("added", state.added, "last", str(state.last)) if state.added > 0 else ()
                commands.append(("HSET", record, "committed", f"{batch}:{each.record.attempt}", *mark))
            commands += self._keep(record)
        return commands

    def finish(self, account: Account, rows: RowDigest | None, now: Values) -> list[Command]:
        """Return the commands that mark the batch as complete in the ledger, after `commit`, and delete the ledger's
        old fields. Raises ATTEMPT_REPLACED if there is a later driver, which may withdraw the rows.
        """
        self._prepared(now)
        ledger, batch = self.writer.ledger_key, self.writer.batch
        words = () if rows is None else (f"rows:{batch}", f"{rows.rows} {rows.text}")
        old: list[Command] = [("HDEL", ledger, *part) for part in parts(account.old)]
        return [("HSET", ledger, "committed", batch, *words), *old, *self._keep(ledger)]

    # Withdrawal

    def release(self, account: Account, note: str, now: Values) -> list[Command]:
        """Return the commands by which a driver that withdraws the batch lets any later attempt use its own rows.

        `note`: what is withdrawn, which stays in the ledger. Raises ATTEMPT_REPLACED if there is a later driver.
        """
        self._prepared(now)
        ledger, batch = self.writer.ledger_key, self.writer.batch
        words = ("committed", batch - 1) if account.is_committed else ()
        return [
            ("HDEL", ledger, f"prepared:{batch}", f"rows:{batch}"),
            ("HSET", ledger, f"{WITHDRAWN}{batch}:{account.driver}", note, *words),
        ]

    def withdraw(
        self, stream: bytes, after: FenceState, before: FenceState, ids: Sequence[bytes], now: Sequence[Values]
    ) -> list[Command]:
        """Return the commands that take back the last transactions that the partition's fence counts, and their
        entries `ids`; no commands if they were taken back.

        `after` and `before`: the fence's value after and before the transactions. `now`: the record and the fence, as
        read under WATCH. Raises ATTEMPT_REPLACED if this driver's claim of the stream no longer holds.
        """
        record, fence, key = BatchRecord.parse(now[0]), FenceState.parse(now[1]), self.writer.fence_key(stream)
        is_done = fence == before if before.rows else fence.batch != self.writer.batch
        may_withdraw = allows(record, self.writer, Event.WITHDRAW) and record.sealer == self.writer.attempt
        if not may_withdraw or not (is_done or fence == after):
            fail("ATTEMPT_REPLACED", stream=shown(stream), batch=self.writer.batch)
        removed: list[Command] = [("XDEL", stream, *ids)] if ids else []
        if is_done:
            return []
        return [*removed, before.command(key)] if before.rows else [*removed, *self.dismiss(stream)]

    def retire(self, task_rows: Sequence[TaskRows]) -> list[Command]:
        """Return the commands that let the records of a finished write expire. The write must be one that cannot be
        repeated under its name.
        """
        writer = self.writer
        fences = [writer.fence_key(each.stream, each.partition) for each in task_rows]
        streams = dict.fromkeys(each.stream for each in task_rows)
        others = [key for stream in streams for key in (writer.record_key(stream), writer.roll_key(stream))]
        late: list[Command] = [("PEXPIRE", key, _LATE_MS) for key in fences]
        return [*late, *(("PEXPIRE", key, RECORD_MS) for key in (*others, writer.ledger_key))]


def retention_ms(options: WriteOptions, lasting: bool) -> int:
    """Return the retention of records after their last change, in milliseconds; 0 keeps them permanently.

    A write that cannot be repeated (not `lasting`) retires its records when it ends. Until then they are kept for at
    least 30 days, regardless of the user's retention. If they expired because the server's clock jumped ahead, a
    retried task would write its rows twice.
    """
    if not lasting:
        return max(options.fence_retention, _UNNAMED_MS)
    return max(options.fence_retention, RECORD_MS) if options.fence_retention else 0


def number_write(
    query: str, batch: int, run: str, execution: str, keep_ms: int, found: Sequence[bytes]
) -> tuple[int, list[Command]]:
    """Return the number of a writing execution in this batch and run, from 0, and the commands that record it.

    `found`: the reply to HGETALL of `writes_key`. Raises ATTEMPT_REPLACED if a later batch has begun.
    """
    key, field = writes_key(query), f"{batch}:{run}"
    runs = {name.decode(): value.decode() for name, value in zip(found[::2], found[1::2], strict=True)}
    known = [each for each in runs.get(field, "").split(",") if each]
    if execution in known:
        return known.index(execution), []
    if any(int(name.partition(":")[0]) > batch for name in runs):
        fail("ATTEMPT_REPLACED", stream=shown(key), batch=batch)
    old = [name for name in runs if int(name.partition(":")[0]) < batch]
    commands: list[Command] = [("HSET", key, field, ",".join([*known, execution]))]
    commands += [("HDEL", key, *old)] if old else []
    commands += [("PEXPIRE", key, keep_ms)] if keep_ms else []
    return len(known), commands


def _fields(prefix: str, names: Iterable[bytes]) -> list[bytes]:
    """Return the HSET arguments that set these fields to empty values."""
    return [word for name in names for word in (prefix.encode() + name, b"")]


def _floor(seen: Evidence, staged: Sequence[TaskRows]) -> StreamId:
    """Return the stream's last ID when the first of these tasks started to stage; without tasks, the last ID that was
    seen.
    """
    return min((StreamId.parse(each.floor) for each in staged if each.floor), default=seen.stream.last)


# --- The fence of one task


def withdrawal_command(verb: str, writer: WriterId, address: object) -> str:
    """Return the command line that withdraws the batch (`withdrawal`)."""
    server = "--embedded" if isinstance(address, Address) and address.driver else f"--url {quote(str(address))}"
    return f"pystreams batches {verb} {quote(writer.name)} {writer.batch} {server}"


class StreamFence:
    """One task's progress in writing rows to one stream, and the fence that counts them.

    The calls for each chunk are `count_written`, `next_state` and `advance`. `update` follows each read of the fence.
    Rows are passed as their hashes (`digest`). `done`: digest of the rows that this task need not write.
    """

    def __init__(self, stream: bytes, writer: WriterId, address: object, done: RowDigest | None = None) -> None:
        self.stream = stream
        self.key = writer.fence_key(stream)
        #: Digest of the task's rows that are in the stream.
        self.digest = done or RowDigest()
        #: The stream's last ID, for the check of rows that have their own IDs.
        self.last = ZERO
        #: The fence's value when it was last read.
        self.state = FenceState()
        self.writer = writer
        self._address = address
        self._next: tuple[Any, RowDigest] | None = None  # rows in flight, and the digest including them
        self._reordered = False  # whether the task's rows so far are the fence's rows in another order

    @property
    def rows(self) -> int:
        """Number of the task's rows that are in the stream."""
        return self.digest.rows

    def update(self, values: Values) -> None:
        """Store the fence's value, from the reply to HMGET of `FENCE_FIELDS`.

        Raises FENCE_AHEAD, FENCE_BEHIND, FENCE_VERSION or ROW_REFUSED if this task must not continue.
        """
        state = FenceState.parse(values)
        batch, stream, fence = self.writer.batch, shown(self.stream), shown(self.key)
        if state.batch > batch:
            fail("FENCE_AHEAD", stream=stream, fence=fence, found=state.batch, batch=batch)
        if state.batch < batch:
            state = FenceState(batch, old=state.chunk)
        if state.refused:
            row, _, reason = state.refused.partition(" ")
            fail("ROW_REFUSED", row=row, address=self._address, reason=reason.rstrip(". "))
        if state.rows < self.rows:
            fail("FENCE_BEHIND", stream=stream, fence=fence, rows=state.rows, known=self.rows)
        if RowDigest.parse(state.rows, state.digest) is None:
            command = withdrawal_command("keep", self.writer, self._address)
            fail("FENCE_VERSION", stream=stream, batch=batch, rows=state.rows, command=command)
        self.state = state

    def count_written(self, hashes: Any) -> int:
        """Return the number of the next rows that are already in the stream.

        If the fence's rows end among the next rows or directly before them, the digests must be equal. Otherwise
        REPLAY_DIFFERS is raised. If the fence's rows end with the last of the next rows, they may have another order,
        but then no more rows may follow.
        """
        done = max(0, min(self.state.rows - self.rows, len(hashes)))
        if self._reordered and len(hashes):
            self.refuse()
        if self.rows + done == self.state.rows and self.state.rows:
            found = self.digest.plus(hashes[:done])
            if found.text != self.state.digest:
                stored = RowDigest.parse(self.state.rows, self.state.digest)
                if done < len(hashes) or stored is None or not found.same_rows(stored):
                    self.refuse()
                self._reordered = True
        return done

    def next_state(self, hashes: Any) -> FenceState:
        """Return the fence's value after all of these rows are in the stream."""
        digest = self.digest.plus(hashes)
        self._next = hashes, digest
        return self.state.after(digest)

    def advance(self, hashes: Any) -> None:
        """Record that these rows are in the stream."""
        if self._next is not None and self._next[0] is hashes:
            self.digest = self._next[1]
        else:
            self.digest = self.digest.plus(hashes)
        self._next = None

    def finish(self) -> None:
        """Check after the task's last row that the fence counts no more rows. Raises REPLAY_DIFFERS if it does."""
        if self.state.rows > self.rows:
            self.refuse()

    def refuse(self, is_committed: bool = False) -> NoReturn:
        """Raise REPLAY_DIFFERS. `is_committed`: whether the batch may be committed."""
        writer = self.writer
        command = withdrawal_command("rm", writer, self._address)
        fail(
            "REPLAY_DIFFERS",
            stream=shown(self.stream),
            rows=self.state.rows,
            partition=writer.partition,
            batch=writer.batch,
            command=f"{command} --committed" if is_committed else command,
        )
