"""States and events of an exactly-once write, with the protocol's functions on dictionaries instead of a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spark_streams.config.write import WriteOptions
from spark_streams.errors import PystreamsError
from spark_streams.write.digest import RowDigest
from spark_streams.write.protocol import TRANSITIONS, Event, Protocol, State, retention_ms, state_of
from spark_streams.write.records import (
    FENCE_FIELDS,
    RECORD_FIELDS,
    Account,
    BatchRecord,
    Evidence,
    FenceState,
    StreamState,
    TaskRows,
    Values,
    WriterId,
)
from streamclient.commands import Command

STREAM = b"s"
EMPTY = StreamState(added=0)
ONE_ROW = RowDigest().plus(np.array([7], np.uint64))


class Hashes:
    """The records on a server, and one attempt that uses them."""

    def __init__(self, attempt: str = "a", batch: int = 3) -> None:
        self.protocol = Protocol(WriterId("q", batch, 0, attempt))
        self.content: dict[bytes, dict[str, bytes]] = {}

    def as_attempt(self, attempt: str) -> None:
        """Continue as the attempt with this name."""
        self.protocol = replace(self.protocol, writer=replace(self.protocol.writer, attempt=attempt))

    def execute(self, commands: Sequence[Command]) -> None:
        """Execute the protocol's commands on the dictionaries."""
        for name, key, *words in commands:
            assert isinstance(key, bytes)
            if name == "HSET":
                fields = zip(words[::2], words[1::2], strict=True)
                self.content.setdefault(key, {}).update({_text(field): _text(each).encode() for field, each in fields})
            elif name == "HDEL":
                for field in words:
                    self.content.get(key, {}).pop(_text(field), None)
            elif name == "PEXPIRE":
                assert words == [0]
                self.content.pop(key, None)
            else:
                assert name == "XDEL"

    def values(self, key: bytes, names: Sequence[str]) -> Values:
        """Return values as HMGET does."""
        return [self.content.get(key, {}).get(name) for name in names]

    @property
    def record(self) -> BatchRecord:
        """Record of the stream."""
        return BatchRecord.parse(self.values(self.protocol.writer.record_key(STREAM), RECORD_FIELDS))

    @property
    def state(self) -> State:
        """State of the stream in the attempt's batch."""
        return state_of(self.record, self.protocol.writer.batch)

    # The events

    def write(self) -> None:
        """Add a row like a task that starts now."""
        found = self.record
        is_open = self.protocol.is_open(STREAM, Event.WRITE, found, found)
        fence = FenceState(self.protocol.writer.batch, 1, ONE_ROW.text, 1)
        self.execute(self.protocol.write(STREAM, fence, None if is_open else EMPTY))

    def seal(self) -> None:
        """Seal the stream like a driver."""
        self.execute(self.protocol.seal(STREAM))

    def claim(self, driver: int = 1, **seen: Any) -> BatchRecord | None:
        """Read the stream's records, then claim the stream for one staged row."""
        key = self.protocol.writer.staged_key(STREAM, "0")
        staged = [TaskRows(STREAM, 0, ONE_ROW, RowDigest(), key, 1)]
        evidence, account = Evidence(self.record, **seen), Account((STREAM,), driver=driver)
        keys = [self.protocol.writer.fence_key(STREAM, partition) for partition in evidence.fences]
        roll = self.content.get(self.protocol.writer.roll_key(STREAM), {})
        evidence = replace(evidence, roll=frozenset(map(int, roll)))
        now = [
            self.values(self.protocol.writer.record_key(STREAM), RECORD_FIELDS),
            [word for field, value in roll.items() for word in (field.encode(), value)],
            *(self.values(key, FENCE_FIELDS) for key in keys),
        ]
        commands, record = self.protocol.claim(STREAM, evidence, account, staged, now)
        self.execute(commands)
        return record

    def publish(self) -> None:
        """Add a staged row like a driver."""
        found = self.record
        self.protocol.is_open(STREAM, Event.PUBLISH, found, found)
        fence = FenceState(self.protocol.writer.batch, 1, ONE_ROW.text, 1)
        self.execute(self.protocol.write(STREAM, fence, None))

    def commit(self) -> None:
        """Commit the stream's current record."""
        self.execute(self.protocol.commit({STREAM: Evidence(self.record)}))

    def withdraw(self) -> None:
        """Take back the only row like a user who has claimed the stream."""
        protocol, after = self.protocol, FenceState(self.protocol.writer.batch, 1, ONE_ROW.text, 1)
        keys = [(protocol.writer.record_key(STREAM), RECORD_FIELDS), (protocol.writer.fence_key(STREAM), FENCE_FIELDS)]
        now = [self.values(*each) for each in keys]
        self.execute(protocol.withdraw(STREAM, after, FenceState(after.batch), [b"1-0"], now))

    def fire(self, event: Event) -> None:
        """Perform the event."""
        getattr(self, event.name.lower())()


def _text(word: Any) -> str:
    return word.decode() if isinstance(word, bytes) else str(word)


PATHS = {
    State.NEW: [],
    State.DIRECT: [Event.WRITE],
    State.SEALED: [Event.WRITE, Event.SEAL],
    State.PREPARED: [Event.SEAL, Event.CLAIM],
    State.COMMITTED: [Event.SEAL, Event.CLAIM, Event.PUBLISH, Event.COMMIT],
}


def in_state(state: State) -> Hashes:
    hashes = Hashes()
    for event in PATHS[state]:
        hashes.fire(event)
    assert hashes.state is state
    return hashes


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_every_event_in_every_state(state: State, event: Event) -> None:
    """An event leads to the state of the transition table; an event that the table does not allow changes nothing."""
    hashes = in_state(state)
    before = {key: dict(fields) for key, fields in hashes.content.items()}
    if (state, event) in TRANSITIONS:
        hashes.fire(event)
        assert hashes.state is TRANSITIONS[state, event]
    elif event is Event.CLAIM:
        assert hashes.claim() is None
        assert hashes.content == before
    elif event is Event.COMMIT:
        hashes.commit()
        assert hashes.state is state
    else:
        with pytest.raises(PystreamsError, match="ATTEMPT_REPLACED"):
            hashes.fire(event)
        assert hashes.content == before


@pytest.mark.parametrize(("state", "event"), [(State.DIRECT, Event.WRITE), (State.PREPARED, Event.PUBLISH)])
def test_only_the_attempt_of_the_record_adds_rows(state: State, event: Event) -> None:
    """Another attempt than the record's is rejected and changes nothing."""
    hashes = in_state(state)
    before = {key: dict(fields) for key, fields in hashes.content.items()}
    hashes.as_attempt("b")
    with pytest.raises(PystreamsError, match="ATTEMPT_REPLACED"):
        hashes.fire(event)
    assert hashes.content == before


def test_a_task_fails_if_the_record_changed_since_it_was_read() -> None:
    """A task fails if another attempt changed the record after the task has read it."""
    hashes = Hashes()
    entered = hashes.record
    hashes.execute([("HSET", hashes.protocol.writer.record_key(STREAM), "batch", 2, "attempt", "z")])
    assert hashes.state is State.NEW
    with pytest.raises(PystreamsError, match="ATTEMPT_REPLACED"):
        hashes.protocol.is_open(STREAM, Event.WRITE, hashes.record, entered)


def test_a_claim_follows_the_order_of_drivers() -> None:
    """A later driver can claim a stream from an earlier driver, but not the reverse."""
    hashes = in_state(State.PREPARED)
    hashes.as_attempt("b")
    assert hashes.claim(driver=2) == hashes.record
    assert (hashes.record.attempt, hashes.record.driver) == ("b", 2)
    hashes.as_attempt("a")
    with pytest.raises(PystreamsError, match="ATTEMPT_REPLACED"):
        hashes.claim(driver=1)


def test_a_claim_of_a_changed_fence_is_none() -> None:
    """A claim returns None if the fence counts more rows than the driver has seen."""
    hashes = in_state(State.SEALED)
    assert hashes.claim(fences={0: FenceState(3, 0, "", 0)}) is None
    assert hashes.state is State.SEALED


def test_a_claim_of_a_deleted_stream_removes_its_fences() -> None:
    """Claiming a deleted stream removes its fences, so all rows are published again."""
    hashes = in_state(State.SEALED)
    fence = FenceState.parse(hashes.values(hashes.protocol.writer.fence_key(STREAM), FENCE_FIELDS))
    assert fence.rows == 1
    hashes.claim(fences={0: fence}, is_gone=True)
    assert hashes.protocol.writer.fence_key(STREAM) not in hashes.content


def test_the_last_driver_prepares() -> None:
    """An attempt is marked as prepared once; it is rejected if a later driver or another attempt is registered."""
    protocol = Protocol(WriterId("q", 3, 0, "a"))
    account = Account(driver=1)
    assert protocol.ledger_reads(account) == ("HMGET", b"pystreams:fence:{q}:ledger", "prepared:3", "driver:3:2")
    assert protocol.prepare(account, [None, None]) == [("HSET", b"pystreams:fence:{q}:ledger", "prepared:3", "a")]
    assert protocol.prepare(account, [b"a", None]) == []
    for now in ([None, b"b"], [b"b", None]):
        with pytest.raises(PystreamsError, match="ATTEMPT_REPLACED"):
            protocol.prepare(account, now)
    assert protocol.prepare(replace(account, prepared="b"), [b"b", None])


@pytest.mark.parametrize(
    ("retention", "named", "unnamed"), [(0, 0, 30), (1, 1, 30), (2, 2, 30), (30, 30, 30), (45, 45, 45)]
)
def test_a_short_retention_does_not_shorten_an_unnamed_write(retention: int, named: int, unnamed: int) -> None:
    """Records of a running unnamed write last at least 30 days; other records last as long as fenceRetention."""
    day = 86_400_000
    options = WriteOptions(stream="s", fence_retention=retention * day)
    assert (retention_ms(options, lasting=True), retention_ms(options, lasting=False)) == (named * day, unnamed * day)
