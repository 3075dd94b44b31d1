"""The exactly-once protocol in every interleaving: two attempts of a task or a batch, kills, broken links, restarts,
and users who withdraw the batch.

The code that writes, stages, publishes and commits is the real one; the server is the engine's core. A kill needs no
step of its own: a property of every state also holds if a program never continues from that state. The replay after a
restart runs from every reachable content of the server.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_streams.config.write import WriteOptions
from spark_streams.write import exactly_once
from spark_streams.write.encoding import EncodedRows, RowEncoder, WriteSchema
from spark_streams.write.exactly_once import ExactlyOnceSender
from spark_streams.write.protocol import TRANSITIONS, Event, Protocol, State, StreamFence
from spark_streams.write.publishing import Publisher
from spark_streams.write.records import TaskRows, WriterId
from spark_streams.write.withdrawal import OutdatedError, look, withdraw
from streamclient import refusals
from streamclient.connection import Connection
from streamclient.errors import PystreamsError
from tests.harness.interleaving import Exploration, Keys, Program, Server, alone

#: The rows of each partition of an attempt, in order, as pairs of stream and row. Every row is a chunk.
Parts = tuple[tuple[tuple[str, int], ...], ...]

ONE: Parts = ((("s", 1), ("s", 2)),)
TWO_STREAMS: Parts = ((("s", 1), ("t", 2)),)
Rows = Counter[tuple[str, int]]
#: The same batch with other rows, from a source that is not repeatable.
OTHER: Parts = ((("s", 3), ("s", 4)),)
OTHER_TWO: Parts = ((("s", 3), ("t", 4)),)

#: Commands that are hidden, so that rows are sent by XADD.
_HIDDEN = (b"PS.ADD",)


@pytest.fixture(autouse=True)
def deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove pauses, and make the names of staged rows depend on the attempt only."""
    monkeypatch.setattr(refusals.Budget, "pause", lambda self: True)
    monkeypatch.setattr(exactly_once, "uuid", exactly_once.uuid)  # `Attempt.task` replaces it


@cache
def encoded(stream: str, row: int, mode: str) -> EncodedRows:
    table = pa.RecordBatch.from_pydict({"n": pa.array([row], pa.int64())})
    options = WriteOptions(stream=stream, mode=mode)  # type: ignore[arg-type]
    ((rows,),) = RowEncoder(options, WriteSchema(("n",), False, False, False)).chunks(iter([table]))
    return rows


@dataclass(frozen=True)
class Attempt:
    """One attempt of batch 0: its tasks and its driver."""

    name: str
    parts: Parts
    mode: str = "exactlyOnce"

    @property
    def options(self) -> WriteOptions:
        return WriteOptions(stream="s", mode=self.mode, fence_retention=0)  # type: ignore[arg-type]

    def task(self, connection: Connection, partition: int, copy: str = "") -> list[TaskRows]:
        names = itertools.count()
        exactly_once.uuid = SimpleNamespace(  # type: ignore[attr-defined]
            uuid4=lambda: SimpleNamespace(hex=f"{self.name}{copy}-{partition}-{next(names)}")
        )
        writer = WriterId("q", 0, partition, self.name)
        sender = ExactlyOnceSender(connection, writer, self.options, lasting=True)
        for stream, row in self.parts[partition]:
            sender.submit([encoded(stream, row, self.mode)])
        return sender.finish()

    def commit(self, connection: Connection, task_rows: Sequence[TaskRows]) -> None:
        writer = WriterId("q", 0, 0, self.name)
        Publisher(connection, writer, self.options, lasting=True).commit(task_rows)

    def tasks(self, connection: Connection) -> list[TaskRows]:
        return [each for partition in range(len(self.parts)) for each in self.task(connection, partition)]

    @property
    def rows(self) -> Rows:
        """Rows of the attempt, by stream."""
        return Counter(row for part in self.parts for row in part)

    def whole(self, connection: Connection) -> None:
        self.commit(connection, self.tasks(connection))


def rows_in(keys: Keys) -> Rows:
    """Return the rows in all streams."""
    streams = ((key.decode(), value[2]) for key, value in keys if not key.startswith(b"pystreams:"))
    return Counter((stream, int(fields[1])) for stream, entries in streams for _, fields in entries)


def prepared_in(keys: Keys) -> str:
    """Return the attempt that has claimed all streams according to the ledger, or an empty string."""
    fields = dict(dict(keys).get(WriterId("q", 0, 0).ledger_key, ()))
    return str(fields.get(b"prepared:0", b"").decode())


@dataclass
class Model:
    """Explores the interleavings of programs and checks the invariants in every state.

    `replay` is the attempt that runs after a restart, from every content of the server. A program named like one of
    `attempts` ends with that attempt's commit, and the batch is complete if the program succeeds. Attempts may have
    different rows: then the batch has all rows of one attempt, and a replay with other rows is rejected and changes
    nothing.
    """

    programs: Sequence[Program]
    attempts: Sequence[Attempt]
    replay: Attempt
    breaks: int = 0
    switches: int | None = None
    endings: set[str] = field(default_factory=set)
    visited: int = 0

    def run(self, keys: Keys = ()) -> None:
        batches = [attempt.rows for attempt in (*self.attempts, self.replay)]
        names = [attempt.name for attempt in self.attempts]
        server, after = Server(_HIDDEN), Server(_HIDDEN)
        exploration = Exploration(self.programs, server, self.breaks, self.switches)
        replayed: set[tuple[Keys, bool]] = set()
        for state, progress in exploration.states(keys):
            found = rows_in(state.keys)
            assert any(found <= rows for rows in batches[:-1]), f"twice, or mixed\n{exploration.trace(state)}"
            for program, each in zip(self.programs, progress, strict=True):
                if each is None or not each.is_over:
                    continue
                self.endings.add(f"{program.name} {each.error}".strip())
                if program.name in names and not each.error:
                    assert found in batches[:-1], f"committed {found}\n{exploration.trace(state)}"
            is_free = any(each is not None and each.result == WITHDRAWN for each in progress)
            if (state.keys, is_free) not in replayed:
                replayed.add((state.keys, is_free))
                after.restore(state.keys)
                trace = partial(exploration.trace, state)
                self._replay(after, found, prepared_in(state.keys), trace, is_free=is_free)
        self.visited = exploration.visited

    def _replay(self, server: Server, before: Rows, prepared: str, trace: Callable[[], str], *, is_free: bool) -> None:
        """Run the batch again after a restart, and check the result. `is_free`: whether the batch was withdrawn."""
        error = _error_of(lambda: alone(server, self.replay.whole))
        if error:
            assert not is_free, f"refused after a withdrawal: {error}\n{trace()}"
            assert error == "REPLAY_DIFFERS", f"refused: {error}\n{trace()}"
            assert not before <= self.replay.rows, f"refused\n{trace()}"
            assert rows_in(server.keys()) == before, f"refused and changed\n{trace()}"
            assert before == self._rows_of(prepared, before), f"not finished\n{trace()}"
            self.endings.add("replay REPLAY_DIFFERS")
            return
        found = rows_in(server.keys())
        assert found in [attempt.rows for attempt in (*self.attempts, self.replay)], f"after a restart\n{trace()}"
        assert found == self._rows_of(prepared, found), f"not finished\n{trace()}"
        self.endings.add("replay " + " ".join(f"{stream}{row}" for stream, row in sorted(found)))

    def _rows_of(self, name: str, default: Rows) -> Rows:
        return next((attempt.rows for attempt in self.attempts if attempt.name == name), default)


def _error_of(call: Callable[[], object]) -> str:
    """Return the condition of the error that a call raises, or an empty string if the call succeeds."""
    try:
        call()
    except PystreamsError as error:
        return error.condition
    return ""


def drivers(tasks: Sequence[Attempt]) -> tuple[list[Program], Keys]:
    """Return the drivers of these attempts, and the server's content after the attempts' tasks have run in sequence."""
    server = Server(_HIDDEN)
    programs = []
    for attempt in tasks:
        task_rows = alone(server, attempt.tasks)
        programs.append(Program(attempt.name, partial(attempt.commit, task_rows=task_rows)))
    return programs, server.keys()


def copies(attempt: Attempt) -> list[Program]:
    """Return two copies of an attempt's task, and its driver, which starts when the first copy has ended."""
    tasks = [Program(name, partial(attempt.task, partition=0, copy=name)) for name in ("one", "two")]
    return [*tasks, Program("a", attempt.commit, ("one",))]


WITHDRAWN = "withdrawn"


def withdrawal(name: str, may_break: bool) -> Program:
    """Return a user who withdraws the batch unless it is committed."""

    def run(connection: Connection) -> str:
        batch = replace(look(connection, "q", 0), attempt=name)
        if batch.is_committed or not batch.is_begun:
            return ""
        try:
            withdraw(connection, batch, removes=True, at="now")
        except OutdatedError:
            return "outdated"
        return WITHDRAWN

    return Program(name, run, may_break=may_break)


@dataclass(frozen=True)
class Case:
    """Interleaved programs, and the batch that is replayed from every content they leave.

    `states` is the minimum number of states without a limit of switches between programs. `switches` is the maximum
    number of switches in `make test`; None is unlimited. `breaks` is the number of links that break.
    """

    programs: str
    parts: Sequence[Parts]
    mode: str
    replay: Parts
    states: int
    switches: int | None = None
    breaks: int = 0
    endings: frozenset[str] = frozenset()

    def model(self, switches: int | None) -> tuple[Model, Keys]:
        """Return the model and the server's initial content."""
        attempts = [Attempt(name, parts, self.mode) for name, parts in zip("ab", self.parts, strict=False)]
        programs, keys = [Program(each.name, each.whole, may_break=self.breaks > 0) for each in attempts], ()
        if self.programs == "drivers":
            programs, keys = drivers(attempts)
        elif self.programs == "copies":
            programs = copies(attempts[0])
        elif self.programs == "withdrawal":
            programs.append(withdrawal("w", self.breaks > 0))
        elif self.programs == "withdrawals":
            programs += [withdrawal("v", False), withdrawal("w", False)]
        return Model(programs, attempts, Attempt("c", self.replay, self.mode), self.breaks, switches), keys


REPLACED = frozenset({"a", "b", "a ATTEMPT_REPLACED", "b ATTEMPT_REPLACED"})
WITHDRAWAL = frozenset({"a", "w", "a ATTEMPT_REPLACED", "replay s3 t4"})
CASES = {
    "copies of a task": Case("copies", [ONE], "exactlyOnce", ONE, 1_200, 2, endings=frozenset({"one", "two", "a"})),
    "one attempt": Case("attempts", [TWO_STREAMS], "exactlyOnce", TWO_STREAMS, 20),
    "one attempt, staged": Case("attempts", [TWO_STREAMS], "staged", TWO_STREAMS, 30),
    "one attempt, then other rows": Case("attempts", [TWO_STREAMS], "exactlyOnce", OTHER_TWO, 20),
    "one attempt, then other rows, staged": Case("attempts", [TWO_STREAMS], "staged", OTHER_TWO, 30),
    "a broken link": Case("attempts", [ONE], "exactlyOnce", ONE, 700, breaks=1),
    "a broken link, staged": Case("attempts", [ONE], "staged", ONE, 1_300, breaks=1),
    "two drivers": Case("drivers", [ONE, ONE], "staged", ONE, 17_000, 2, endings=REPLACED),
    "two drivers, two streams": Case("drivers", [TWO_STREAMS, TWO_STREAMS], "staged", TWO_STREAMS, 30_000, 1),
    "two drivers with other rows": Case("drivers", [ONE, OTHER], "staged", OTHER, 17_000, 1),
    "two attempts": Case("attempts", [ONE, ONE], "exactlyOnce", ONE, 95_000, 1),
    "two attempts, staged": Case("attempts", [ONE, ONE], "staged", ONE, 50_000, 1),
    "two attempts, other streams": Case("attempts", [TWO_STREAMS, ONE], "exactlyOnce", ONE, 180_000, 1),
    "two attempts with other rows": Case("attempts", [ONE, OTHER], "exactlyOnce", OTHER, 85_000, 1),
    "a withdrawal": Case("withdrawal", [TWO_STREAMS], "exactlyOnce", OTHER_TWO, 80_000, 1),
    "a withdrawal, staged": Case("withdrawal", [TWO_STREAMS], "staged", OTHER_TWO, 9_000, 2, endings=WITHDRAWAL),
    "a withdrawal, then the same rows": Case("withdrawal", [ONE], "exactlyOnce", ONE, 31_000, 2),
    "a withdrawal with a broken link": Case("withdrawal", [ONE], "exactlyOnce", OTHER, 6_500, 0, breaks=1),
    "a withdrawal, two attempts": Case("withdrawal", [ONE, OTHER], "staged", OTHER, 5_000, 1),
    "two withdrawals": Case("withdrawals", [ONE], "exactlyOnce", OTHER, 10_000, 1),
}


def check(case: Case, switches: int | None) -> Model:
    """Visit all states of the case."""
    model, keys = case.model(switches)
    model.run(keys)
    assert model.endings >= case.endings
    return model


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_interleaving_loses_or_repeats_a_row(case: Case) -> None:
    """Each row is in a stream at most once in every state, and exactly once after a success or a replay."""
    check(case, case.switches)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_number_of_switches_loses_or_repeats_a_row(case: Case) -> None:
    """The invariants also hold with any number of switches between programs."""
    assert check(case, None).visited >= case.states


def forget_fences(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamFence, "count_written", lambda self, hashes: 0)


def skip_the_numbers_of_drivers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Protocol, "check_driver", lambda *_: None)
    reads = Protocol.ledger_reads
    patch.setattr(Protocol, "ledger_reads", lambda self, account: reads(self, replace(account, driver=98)))


def forget_to_seal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Protocol, "seal", lambda *_: [])
    patch.setitem(TRANSITIONS, (State.NEW, Event.CLAIM), State.PREPARED)  # type: ignore[arg-type]
    patch.setitem(TRANSITIONS, (State.DIRECT, Event.CLAIM), State.PREPARED)  # type: ignore[arg-type]


def leave_what_was_begun(patch: pytest.MonkeyPatch) -> None:
    account = Protocol.account
    patch.setattr(Protocol, "account", lambda self, found: replace(account(self, found), prepared=""))


def commit_what_is_withdrawn(patch: pytest.MonkeyPatch) -> None:
    finish = Protocol.finish
    patch.setattr(Protocol, "finish", lambda self, account, rows, now: finish(self, account, rows, [now[0], None]))


@pytest.mark.parametrize(
    ("mutation", "case"),
    [
        (commit_what_is_withdrawn, "a withdrawal, then the same rows"),
        (forget_fences, "copies of a task"),
        (skip_the_numbers_of_drivers, "two drivers"),
        (forget_to_seal, "two attempts, other streams"),
        (leave_what_was_begun, "one attempt, then other rows, staged"),
    ],
)
def test_the_model_fails_if_a_transition_is_broken(
    mutation: Callable[[pytest.MonkeyPatch], None], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model finds lost, repeated or mixed rows if one of five rules of the protocol is removed."""
    mutation(monkeypatch)
    with pytest.raises(AssertionError, match=r"twice|committed|after a restart|not finished|refused"):
        check(CASES[case], 2)
