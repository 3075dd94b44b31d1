"""Rounds: questions about many streams go to the server together, not stream by stream.

The work on one stream is written as a generator (`Steps`) that yields its questions, using the functions here, and gets
their answers. `for_each` runs the generators of all streams concurrently: it collects a question of each generator,
asks them together, and continues. So a thousand streams take as many round trips as one. Questions of one stream are
asked in order. Questions of different streams are asked in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from streamclient.errors import PystreamsError, StreamError, first_of
from streamclient.streams.model import Cut, Range, StreamState
from streamclient.streams.stream_server import StreamServer
from streamwire.stream_id import StreamId

T = TypeVar("T")


@dataclass(frozen=True)
class Ask:
    """A question: its arguments `words`, and the function `many` that answers several such questions, in order."""

    many: Callable[[StreamServer, list[Any]], Sequence[Any]]
    words: tuple[Any, ...]


#: The steps for one stream: a generator that yields questions, gets their answers, and returns a result.
Steps = Generator[Ask, Any, T]


@dataclass(frozen=True)
class Round:
    """Questions of one kind about several streams. `many` answers them, in their order."""

    many: Callable[[StreamServer, list[Any]], Sequence[Any]]
    requested: Sequence[tuple[Any, ...]]


#: A decision about many streams: it yields rounds of questions, gets lists of answers, and returns a result.
Planning = Generator[Round, Any, T]


def run(server: StreamServer, planning: Planning[T]) -> T:
    """Answer the rounds of a decision, and return its result."""
    answers: Sequence[Any] | None = None
    while True:
        try:
            requested = planning.send(answers)
        except StopIteration as end:
            result: T = end.value
            return result
        answers = requested.many(server, [*requested.requested]) if requested.requested else []


def for_each(server: StreamServer, steps: Mapping[str, Steps[T]]) -> dict[str, T]:
    """Return the results of all steps, in their order.

    If steps raise a `StreamError`, the steps of all other streams are completed first. Then the first error is raised,
    with the number of other streams that have errors. Errors of other types are raised immediately.
    """
    results: dict[str, T] = {}
    problems: dict[str, PystreamsError] = {}
    answers: dict[str, Any] = dict.fromkeys(steps)
    while answers:
        requested: dict[Callable[[StreamServer, list[Any]], Sequence[Any]], list[tuple[str, tuple[Any, ...]]]] = {}
        for stream, answer in answers.items():
            try:
                ask = steps[stream].send(answer)
            except StopIteration as end:
                results[stream] = end.value
            except StreamError as problem:
                problems[stream] = problem
            else:
                requested.setdefault(ask.many, []).append((stream, ask.words))
        answers = {}
        for many, questions in requested.items():
            found = many(server, [words for _, words in questions])
            answers.update((stream, answer) for (stream, _), answer in zip(questions, found, strict=True))
    if problems:
        raise first_of({stream: problems[stream] for stream in steps if stream in problems})
    return {stream: results[stream] for stream in steps}


def count(stream: str, after: StreamId, upto: StreamId) -> Steps[int]:
    """See `Entries.counts`."""
    found: int = yield Ask(_count, (stream, after, upto))
    return found


def counts(requested: Sequence[tuple[str, StreamId, StreamId]]) -> Planning[Sequence[int]]:
    """See `Entries.counts`."""
    found: Sequence[int] = yield Round(_count, requested)
    return found


def _count(server: StreamServer, requested: list[Any]) -> Sequence[int]:
    return server.entries.counts(requested)


def nth(stream: str, after: StreamId, number: int, upto: StreamId) -> Steps[tuple[StreamId, int]]:
    """See `Entries.nths`."""
    found: tuple[StreamId, int] = yield Ask(_nth, (stream, after, number, upto))
    return found


def nths(requested: Sequence[tuple[str, StreamId, int, StreamId]]) -> Planning[Sequence[tuple[StreamId, int]]]:
    """See `Entries.nths`."""
    found: Sequence[tuple[StreamId, int]] = yield Round(_nth, requested)
    return found


def _nth(server: StreamServer, requested: list[Any]) -> Sequence[tuple[StreamId, int]]:
    return server.entries.nths(requested)


def splits(wholes: Sequence[tuple[Range, int]], most: int | None, *, exact: bool) -> Planning[Sequence[Sequence[Cut]]]:
    """See `Entries.splits`."""
    found: Sequence[Sequence[Cut]] = yield Round(partial(_splits, most=most, exact=exact), wholes)
    return found


def _splits(server: StreamServer, wholes: list[Any], *, most: int | None, exact: bool) -> Sequence[Sequence[Cut]]:
    return server.entries.splits(wholes, most, exact=exact)


def entry_bytes(requested: Sequence[tuple[str, StreamId]]) -> Planning[Sequence[float]]:
    """See `StreamKeys.average_entry_bytes`."""
    found: Sequence[float] = yield Round(_entry_bytes, requested)
    return found


def _entry_bytes(server: StreamServer, requested: list[Any]) -> Sequence[float]:
    return [server.streams.average_entry_bytes(stream, after) for stream, after in requested]


def state(stream: str, group: str) -> Steps[StreamState | None]:
    """Ask for the stream's state, with the state of the group."""
    found: StreamState | None = yield Ask(_state, (stream, group))
    return found


def _state(server: StreamServer, requested: list[Any]) -> Sequence[StreamState | None]:
    return list(server.states.of([stream for stream, _ in requested], requested[0][1]).values())


def state_at_once(stream: str, group: str) -> Steps[StreamState | None]:
    """Ask for the states of the stream and the group at the same moment."""
    found: StreamState | None = yield Ask(_state_at_once, (stream, group))
    return found


def _state_at_once(server: StreamServer, requested: list[Any]) -> Sequence[StreamState | None]:
    return list(server.states.consistent([stream for stream, _ in requested], requested[0][1]).values())


def consumers(stream: str, group: str) -> Steps[list[tuple[bytes, int]]]:
    """Ask for the name and number of pending entries of each consumer; empty if the group does not exist."""
    found: list[tuple[bytes, int]] = yield Ask(_consumers, (stream, group))
    return found


def _consumers(server: StreamServer, requested: list[Any]) -> Sequence[list[tuple[bytes, int]]]:
    return list(server.groups.consumers([stream for stream, _ in requested], requested[0][1]).values())


def is_held(stream: str, name: str) -> Steps[bool]:
    """Ask whether the lease of that name next to the stream is held."""
    found: bool = yield Ask(_is_held, (stream, name))
    return found


def _is_held(server: StreamServer, requested: list[Any]) -> Sequence[bool]:
    held = server.leases.held([stream for stream, _ in requested], requested[0][1])
    return [stream in held for stream, _ in requested]


def first_pending_id(stream: str, group: str, prefix: str) -> Steps[StreamId | None]:
    """See `Groups.first_pending_ids`."""
    found: StreamId | None = yield Ask(_first_pending_id, (stream, group, prefix))
    return found


def _first_pending_id(server: StreamServer, requested: list[Any]) -> Sequence[StreamId | None]:
    found = server.groups.first_pending_ids([stream for stream, *_ in requested], *requested[0][1:])
    return [found.get(stream) for stream, *_ in requested]


def create_group(stream: str, group: str, position: StreamId, read: int | None = None) -> Steps[bool]:
    """Create the group in the stream like `Groups.create`. Returns False if it already exists."""
    created: bool = yield Ask(_create_group, (stream, group, position, read))
    return created


def _create_group(server: StreamServer, requested: list[Any]) -> Sequence[bool]:
    created = server.groups.create({stream: (at, read) for stream, _, at, read in requested}, requested[0][1])
    return [stream in created for stream, *_ in requested]


def set_position(stream: str, group: str, position: StreamId, read: int | None) -> Steps[None]:
    """Set the group's last-delivered ID like `Groups.set_positions`."""
    yield Ask(_set_position, (stream, group, position, read))


def _set_position(server: StreamServer, requested: list[Any]) -> Sequence[None]:
    server.groups.set_positions({stream: (at, read) for stream, _, at, read in requested}, requested[0][1])
    return [None] * len(requested)


def create_consumer(stream: str, group: str, name: str) -> Steps[bool]:
    """See `Groups.create_consumers`."""
    created: bool = yield Ask(_create_consumer, (stream, group, name))
    return created


def _create_consumer(server: StreamServer, requested: list[Any]) -> Sequence[bool]:
    created = server.groups.create_consumers(
        [(stream, name.encode()) for stream, _, name in requested], requested[0][1]
    )
    return [stream in created for stream, *_ in requested]


def delete_consumer(stream: str, group: str, name: str) -> Steps[None]:
    """See `Groups.delete_consumers`."""
    yield Ask(_delete_consumer, (stream, group, name))


def _delete_consumer(server: StreamServer, requested: list[Any]) -> Sequence[None]:
    server.groups.delete_consumers([(stream, name.encode()) for stream, _, name in requested], requested[0][1])
    return [None] * len(requested)
