"""The exactly-once protocol in every interleaving: two attempts of a task or a batch, kills, broken links, restarts.

The code that writes, stages, publishes and commits is the real one; the server is the engine's core. A kill needs no
step of its own: whatever is true in every state is true if a program never continues from there. The replay after a
restart runs from every reached content of the server.
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

from spark_streams.columns.write_schema import WriteSchema
from spark_streams.config.write import WriteOptions
from spark_streams.write.commit.publishing import Publisher
from spark_streams.write.protocol import Protocol, StreamFence, TaskRows, WriterId
from spark_streams.write.rows.encoding import EncodedRows, RowEncoder
from spark_streams.write.tasks import staging
from spark_streams.write.tasks.exactly_once import ExactlyOnceSender
from streamclient import retry
from streamclient.connection import Connection
from tests.harness.interleaving import Exploration, Keys, Program, Server, alone

#: What each partition of an attempt writes, in order: the stream and the row. Every row is a chunk.
Parts = tuple[tuple[tuple[str, int], ...], ...]

ONE: Parts = ((("s", 1), ("s", 2)),)
TWO_STREAMS: Parts = ((("s", 1), ("t", 2)),)

#: The server is to be as Redis is.
_NO_EXTENSIONS = (b"PS.ADD", b"PS.APPEND")


@pytest.fixture(autouse=True)
def deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses, and names of staged rows that depend on the attempt alone."""
    monkeypatch.setattr(retry.Budget, "pause", lambda self: True)
    monkeypatch.setattr(staging, "uuid", staging.uuid)  # `Attempt.task` replaces it


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
        staging.uuid = SimpleNamespace(  # type: ignore[attr-defined]
            uuid4=lambda: SimpleNamespace(hex=f"{self.name}{copy}-{partition}-{next(names)}")
        )
        writer = WriterId("q", 0, partition, self.name)
        sender = ExactlyOnceSender(connection, writer, self.options, lasting=True)
        for stream, row in self.parts[partition]:
            sender.submit([encoded(stream, row, self.mode)])
        return sender.finish()

    def commit(self, connection: Connection, brought: Sequence[TaskRows]) -> None:
        writer = WriterId("q", 0, 0, self.name)
        Publisher(connection, writer, self.options, lasting=True).commit(brought)

    def tasks(self, connection: Connection) -> list[TaskRows]:
        return [each for partition in range(len(self.parts)) for each in self.task(connection, partition)]

    def whole(self, connection: Connection) -> None:
        self.commit(connection, self.tasks(connection))


def rows_in(keys: Keys) -> list[int]:
    """The rows in all streams."""
    return [int(fields[1]) for key, value in keys if not key.startswith(b"pystreams:") for _, fields in value[2]]


@dataclass
class Model:
    """Explores programs and checks the invariants in every state.

    `replay`: an attempt that runs after a restart, from every content of the server. Programs that are called as an
    attempt, `a` or `b`, end with its commit: if they succeed, the batch is complete.
    """

    programs: Sequence[Program]
    replay: Attempt
    breaks: int = 0
    switches: int | None = None
    endings: set[str] = field(default_factory=set)

    def run(self, keys: Keys = ()) -> None:
        rows = Counter({1: 1, 2: 1})
        server, after = Server(_NO_EXTENSIONS), Server(_NO_EXTENSIONS)
        exploration = Exploration(self.programs, server, self.breaks, self.switches)
        replayed: set[Keys] = set()
        for state, progress in exploration.states(keys):
            found = Counter(rows_in(state.keys))
            assert found <= rows, f"a row is there twice\n{exploration.trace(state)}"
            for program, each in zip(self.programs, progress, strict=True):
                if each is None or not each.is_over:
                    continue
                self.endings.add(f"{program.name} {each.error}".strip())
                if program.name in ("a", "b") and not each.error:
                    assert found == rows, f"committed {found}\n{exploration.trace(state)}"
            if state.keys not in replayed:
                replayed.add(state.keys)
                after.restore(state.keys)
                alone(after, self.replay.whole)
                assert Counter(rows_in(after.keys())) == rows, f"after a restart\n{exploration.trace(state)}"


def drivers(tasks: Sequence[Attempt]) -> tuple[list[Program], Keys]:
    """Return the drivers of these attempts, whose tasks have ended one after another, with the results of the tasks."""
    server = Server(_NO_EXTENSIONS)
    programs = []
    for attempt in tasks:
        brought = alone(server, attempt.tasks)
        programs.append(Program(attempt.name, partial(attempt.commit, brought=brought)))
    return programs, server.keys()


@pytest.mark.parametrize(("parts", "switches"), [(ONE, 3), (TWO_STREAMS, 2)])
def test_two_drivers_of_one_batch(parts: Parts, switches: int) -> None:
    """An old driver that was slow, not dead, ends the batch together with the new one: no row is lost or doubled."""
    programs, keys = drivers([Attempt("a", parts, "staged"), Attempt("b", parts, "staged")])
    model = Model(programs, Attempt("c", parts, "staged"), switches=switches)
    model.run(keys)
    assert model.endings >= {"a", "b", "a ATTEMPT_REPLACED", "b ATTEMPT_REPLACED"}


@pytest.mark.parametrize("mode", ["exactlyOnce", "staged"])
def test_two_attempts_of_one_batch(mode: str) -> None:
    """The tasks and drivers of two attempts take turns twice, at any commands; each may be killed at any command."""
    programs = [Program(name, Attempt(name, ONE, mode).whole) for name in "ab"]
    model = Model(programs, Attempt("c", ONE, mode), switches=2)
    model.run()
    assert model.endings >= {"a", "b"}


def copies(attempt: Attempt) -> list[Program]:
    """Two copies of an attempt's task, and its driver, which starts when the first one has ended."""
    tasks = [Program(name, partial(attempt.task, partition=0, copy=name)) for name in ("one", "two")]
    return [*tasks, Program("a", attempt.commit, ("one",))]


def test_two_copies_of_one_task() -> None:
    """A speculative copy, or a retry while the first one still runs: each row goes in once."""
    programs = copies(Attempt("a", ONE))
    model = Model(programs, Attempt("c", ONE), switches=2)
    model.run()
    assert model.endings >= {"one", "two", "a"}


@pytest.mark.parametrize("mode", ["exactlyOnce", "staged"])
def test_a_link_that_breaks_at_any_command(mode: str) -> None:
    """A sent request may still run at any time, in part, or not at all: the program continues with what it finds."""
    model = Model([Program("a", Attempt("a", ONE, mode).whole, may_break=True)], Attempt("c", ONE, mode), breaks=1)
    model.run()
    assert model.endings == {"a"}


def forget_fences(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamFence, "unwritten", lambda self, hashes: 0)


def skip_the_numbers_of_drivers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Protocol, "check_driver", lambda *_: None)
    reads = Protocol.prepare_reads
    patch.setattr(Protocol, "prepare_reads", lambda self, account: reads(self, replace(account, driver=98)))


@pytest.mark.parametrize("mutation", [forget_fences, skip_the_numbers_of_drivers])
def test_the_model_fails_if_a_transition_is_broken(
    mutation: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that does not read its fence, and drivers without an order, are found out."""
    mutation(monkeypatch)
    keys: Keys = ()
    if mutation is forget_fences:
        programs, mode = copies(Attempt("a", ONE)), "exactlyOnce"
    else:
        mode = "staged"
        programs, keys = drivers([Attempt("a", ONE, mode), Attempt("b", ONE, mode)])
    with pytest.raises(AssertionError, match=r"row is there twice|committed|after a restart"):
        Model(programs, Attempt("c", ONE, mode), switches=3).run(keys)
