"""All interleavings of clients of one server, explored without threads, sockets or time.

A program is ordinary client code. It runs until it sends a request that was not executed yet, and is abandoned there.
Once the step has been executed, the program runs again from its start with the recorded replies. A program's state is
therefore the history of its replies, and every combined state (all keys, all watches, all histories) is visited once,
even if several paths lead to it.

A step is one command, or one transaction from MULTI to EXEC. The reads under a new WATCH and its EXEC run without
others in between. If others changed a watched key there, EXEC would do nothing and the program would read again; if
not, the reads would be the same right before EXEC. A killed program is one that is not stepped any more; its last
request may still be executed. A broken link is a separate step: the program gets an exception, and its requests over
that link may be executed later, command by command, or never.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.settings.config import Config
from engine.wire.encode import encoded
from streamclient.commands import Command
from streamclient.config.address import Address, Endpoint
from streamclient.connection import Connection
from streamclient.errors import LinkError, PystreamsError, ResponseError
from streamclient.replies import parse
from tests.harness.replies import words

#: Commands that run together, each as a tuple of words: one command or MULTI to EXEC, and the reads before it.
Step = tuple[tuple[bytes, ...], ...]
#: All keys of the server with their values.
Keys = tuple[tuple[bytes, Any], ...]

#: Commands that change nothing that others see. They run in one step with the next other command of their request.
_READS = {b"UNWATCH", b"COMMAND", b"WATCH", b"HMGET", b"HGETALL", b"HEXISTS", b"XINFO", b"XRANGE", b"EXISTS"}
#: Commands whose counts no program uses: the counts are all set to 0, so that fewer histories differ.
_COUNTED = {b"HSET", b"HDEL", b"PEXPIRE"}
_BROKEN = object()
_NOW_US = 1_700_000_000_000_000


class _Paused(BaseException):
    """Raised when a program waits for the reply to the first of these steps, which it has sent over a link."""

    def __init__(self, link: int, steps: list[Step]) -> None:
        self.link, self.steps = link, steps


def _steps(commands: Sequence[Sequence[bytes]]) -> list[Step]:
    steps: list[Step] = []
    part: list[tuple[bytes, ...]] = []
    inside = False
    for command in commands:
        part.append(tuple(command))
        inside = (inside or command[0] == b"MULTI") and command[0] != b"EXEC"
        if not inside and command[0] not in _READS:
            steps.append(tuple(part))
            part = []
    if part:
        steps.append(tuple(part))
    return steps


class SimulatedLink:
    """A link whose requests are answered by `ask`, which takes the steps of a request and returns the
    replies' bytes.
    """

    logs_in_again = False
    last_used = 0.0
    sent = 0

    def __init__(self, endpoint: Endpoint, number: int, ask: Callable[[int, list[Step]], bytes]) -> None:
        self.endpoint, self._number, self._ask = endpoint, number, ask
        self._due: dict[bytes, list[Step]] = {}
        self._early: dict[bytes, bytes] = {}

    def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands as `Link.pipeline` does."""
        if not commands:
            return []
        self._receive_due()
        return parse(self._ask(self._number, _steps([words(each) for each in commands])))

    def send_raw(self, *data: Any) -> bytes:
        """Send bytes as `Link.send_raw` does."""
        token = b"%d" % (len(self._due) + len(self._early))
        self._due[token] = _steps(parse(b"".join(data)))
        return token

    def receive(self, token: bytes) -> tuple[bytearray, int]:
        """Return the next reply as `Link.receive` does."""
        self._receive_due()
        data = self._early.pop(token)
        return bytearray(data), len(data)

    def _receive_due(self) -> None:
        while self._due:
            token = next(iter(self._due))
            later = [step for steps in itertools.islice(self._due.values(), 1, None) for step in steps]
            assert not later, "more than one request is in flight"
            self._early[token] = self._ask(self._number, self._due[token])
            del self._due[token]

    def close(self) -> None:
        """Do nothing: there is no socket."""


class SimulatedConnection(Connection):
    """A connection whose links are simulated."""

    def __init__(self, ask: Callable[[int, list[Step]], bytes]) -> None:
        self._ask, self._numbers = ask, itertools.count()
        super().__init__(Address("redis://core:1", retry_ms=60_000))

    def link_to(self, endpoint: Endpoint) -> Any:
        link: Any = self._links.get(endpoint)
        if link is None:
            link = self._links[endpoint] = SimulatedLink(endpoint, next(self._numbers), self._ask)  # type: ignore[assignment]
        return link


@dataclass(frozen=True)
class Program:
    """A client program: `run` gets a connection and the results of the programs in `follows`, and starts after them."""

    name: str
    run: Callable[..., Any]
    follows: tuple[str, ...] = ()
    may_break: bool = False


@dataclass(frozen=True)
class Progress:
    """A program's progress after some replies: waiting for steps, or finished with a result or the name of an error."""

    link: int = 0
    steps: tuple[Step, ...] = ()
    is_over: bool = False
    result: Any = None
    error: str = ""


@dataclass(frozen=True)
class State:
    """The combined state: keys, watches of each session and whether one was touched, history of each program, orphans.

    An orphan is the rest of a request whose link broke. `holder` is the program between a new WATCH and its EXEC.
    `last` is the last stepped program, and `switches` counts the changes of program.
    """

    keys: Keys = ()
    sessions: tuple[tuple[tuple[int, int], tuple[bytes, ...], bool], ...] = ()
    histories: tuple[int, ...] = ()
    orphans: tuple[tuple[tuple[int, int], tuple[Step, ...]], ...] = ()
    breaks: int = 0
    holder: int = -1
    last: int = -1
    switches: int = 0


class Server:
    """A core in this process whose state can be read and set."""

    def __init__(self, hidden: Sequence[bytes] = ()) -> None:
        self._core = Core(Config())
        self._hidden = set(hidden)
        self._sessions: dict[tuple[int, int], Session] = {}
        self._session = self._core.open_session(_NOW_US)
        self._known: Keys | None = ()

    def session(self, name: tuple[int, int]) -> Session:
        """Return the session of a program's link."""
        if name not in self._sessions:
            self._sessions[name] = self._core.open_session(_NOW_US)
        return self._sessions[name]

    def call(self, *command: Any) -> Any:
        """Run a command of the test itself and return its reply."""
        (reply,) = parse(self._execute(self._session, words(command)))
        assert not isinstance(reply, ResponseError), (command, reply)
        return reply

    def execute(self, name: tuple[int, int], step: Step) -> bytes:
        """Execute a step and return the bytes of its replies."""
        session = self.session(name)
        if any(command[0] not in _READS for command in step):
            self._known = None
        replies = (self._execute(session, [*command]) for command in step)
        return b"".join(
            b":0\r\n" if command[0] in _COUNTED and reply[:1] == b":" else reply
            for command, reply in zip(step, replies, strict=True)
        )

    def _execute(self, session: Session, command: list[bytes]) -> bytes:
        if command[0] == b"COMMAND" and self._hidden.intersection(command):
            return b"*%d\r\n" % (len(command) - 2) + b"*-1\r\n" * (len(command) - 2)
        return encoded(self._core.execute(session, command, _NOW_US), 2)

    def keys(self) -> Keys:
        """Return all keys and their values."""
        if self._known is not None:
            return self._known
        found: list[tuple[bytes, Any]] = []
        for key in sorted(self.call("KEYS", "*")):
            if self.call("TYPE", key) == b"hash":
                words_ = self.call("HGETALL", key)
                found.append((key, tuple(sorted(zip(words_[::2], words_[1::2], strict=True)))))
            else:
                info = self.call("XINFO", "STREAM", key)
                facts = dict(zip(info[::2], info[1::2], strict=True))
                entries = tuple((each, tuple(fields)) for each, fields in self.call("XRANGE", key, "-", "+"))
                found.append((key, (facts[b"last-generated-id"], facts[b"entries-added"], entries)))
        self._known = tuple(found)
        return self._known

    def sessions(self) -> tuple[tuple[tuple[int, int], tuple[bytes, ...], bool], ...]:
        """Return each session with WATCH: its name, its watched keys, and whether one of them was changed."""
        return tuple(
            (name, tuple(sorted(key for _, key in session.watching)), session.dirty_exec)
            for name, session in sorted(self._sessions.items())
            if session.watching
        )

    def restore(self, keys: Keys, sessions: Sequence[tuple[tuple[int, int], tuple[bytes, ...], bool]] = ()) -> None:
        """Set the server's keys and the watches of its sessions."""
        for session in self._sessions.values():
            self._execute(session, [b"UNWATCH"])
        if self._known is not keys:
            self._set_keys(keys)
        for name, watched, is_dirty in sessions:
            session = self.session(name)
            self._execute(session, [b"WATCH", *watched])
            session.dirty_exec = is_dirty

    def _set_keys(self, keys: Keys) -> None:
        there = self.call("KEYS", "*")
        if there:
            self.call("DEL", *there)
        for key, value in keys:
            if value and isinstance(value[0], tuple):
                self.call("HSET", key, *itertools.chain(*value))
                continue
            last, added, entries = value
            for each, fields in entries:
                self.call("XADD", key, each, *fields)
            if not entries:
                self.call("XADD", key, last, "x", "x")
                self.call("XDEL", key, last)
            self.call("XSETID", key, last, "ENTRIESADDED", added)
        self._known = keys


@dataclass
class Exploration:
    """Visits every state that these programs can reach.

    At most `breaks` links break, and the program changes at most `switches` times, or without limit if `switches` is
    None.
    """

    programs: Sequence[Program]
    server: Server
    breaks: int = 0
    switches: int | None = None
    most: int = 500_000
    visited: int = 0
    _histories: list[tuple[int, Any]] = field(default_factory=lambda: [(-1, None)])
    _numbers: dict[tuple[int, Any], int] = field(default_factory=dict)
    _progress: dict[tuple[Any, ...], Progress] = field(default_factory=dict)

    def states(self, keys: Keys = ()) -> Iterator[tuple[State, list[Progress | None]]]:
        """Yield every state reachable from these keys once, with each program's progress, or None if it has not
        started.
        """
        first = State(keys, (), (0,) * len(self.programs))
        self.came_from = seen = {first: None}
        waiting = deque([first])
        while waiting:
            state = waiting.pop()
            self.visited += 1
            assert self.visited <= self.most, "more states than expected"
            progress = self.progress_of(state)
            yield state, progress
            for after in self._after(state, progress):
                if after not in seen:
                    seen[after] = state
                    waiting.append(after)

    def trace(self, state: State) -> str:
        """Return the steps that led to a state, one per line."""
        lines: list[str] = []
        while (before := self.came_from[state]) is not None:
            progress = self.progress_of(before)
            for at, program in enumerate(self.programs):
                if before.histories[at] != state.histories[at]:
                    each = progress[at]
                    assert each is not None
                    is_broken = self._histories[state.histories[at]][1] is _BROKEN
                    shown = (
                        "the link broke"
                        if is_broken
                        else " ".join(
                            b" ".join(words_).decode("utf-8", "replace").replace("\r\n", " ")
                            for words_ in each.steps[0]
                        )
                    )
                    lines.append(f"{program.name}: {shown}  -> {self._histories[state.histories[at]][1]!r}")
            state = before
        return "\n".join(reversed(lines))

    def progress_of(self, state: State) -> list[Progress | None]:
        """Return the progress of each program."""
        found: dict[str, Progress] = {}
        progress: list[Progress | None] = []
        for at, program in enumerate(self.programs):
            before = [found.get(name) for name in program.follows]
            if not all(each is not None and each.is_over and not each.error for each in before):
                progress.append(None)
                continue
            inputs = tuple(state.histories[self._index(name)] for name in program.follows)
            key = (at, state.histories[at], inputs)
            if key not in self._progress:
                results = [each.result for each in before if each is not None]
                self._progress[key] = self._run(program, state.histories[at], results)
            found[program.name] = self._progress[key]
            progress.append(self._progress[key])
        return progress

    def _index(self, name: str) -> int:
        return next(at for at, program in enumerate(self.programs) if program.name == name)

    def _after(self, state: State, progress: list[Progress | None]) -> Iterator[State]:
        holder = progress[state.holder] if state.holder >= 0 else None
        if holder is not None and holder.is_over:
            state = replace(state, holder=-1)
        for at, each in enumerate(progress):
            if each is None or each.is_over or not self._may_run(state, at):
                continue
            self.server.restore(state.keys, state.sessions)
            reply = self.server.execute((at, each.link), each.steps[0])
            watches = all(command[0] in _READS for command in each.steps[0])
            holds = watches and any(name == (at, each.link) for name, _, _ in self.server.sessions())
            yield self._state(state, state.orphans, at, reply, at if holds else -1)
            if self.programs[at].may_break and state.breaks < self.breaks:
                orphan = ((at, each.link), each.steps)
                yield State(
                    state.keys,
                    state.sessions,
                    self._with(state, at, _BROKEN),
                    (*state.orphans, orphan),
                    state.breaks + 1,
                    -1,
                    state.last,
                    state.switches,
                )
        for number, (name, steps) in enumerate(state.orphans):
            if not self._may_run(state, -2 - number):
                continue
            self.server.restore(state.keys, state.sessions)
            self.server.execute(name, steps[0])
            others = [*state.orphans]
            others[number : number + 1] = [(name, steps[1:])] if steps[1:] else []
            yield self._state(state, tuple(others), -2 - number)

    def _may_run(self, state: State, at: int) -> bool:
        if state.holder not in (-1, at):
            return False
        return self.switches is None or state.last in (-1, at) or state.switches < self.switches

    def _state(self, before: State, orphans: Any, at: int, reply: Any = None, holder: int = -1) -> State:
        histories = before.histories if at < 0 else self._with(before, at, reply)
        switches = before.switches
        if self.switches is not None:
            switches += before.last not in (-1, at)
        last = at if self.switches is not None else -1
        return State(
            self.server.keys(), self.server.sessions(), histories, orphans, before.breaks, holder, last, switches
        )

    def _with(self, state: State, at: int, event: Any) -> tuple[int, ...]:
        link = (state.histories[at], event)
        if link not in self._numbers:
            self._numbers[link] = len(self._histories)
            self._histories.append(link)
        histories = [*state.histories]
        histories[at] = self._numbers[link]
        return tuple(histories)

    def _run(self, program: Program, history: int, results: list[Any]) -> Progress:
        events: list[Any] = []
        while history:
            history, event = self._histories[history]
            events.append(event)
        events.reverse()
        replies = iter(events)

        def ask(link: int, steps: list[Step]) -> bytes:
            found = b""
            for at in range(len(steps)):
                event = next(replies, None)
                if event is None:
                    raise _Paused(link, steps[at:])
                if event is _BROKEN:
                    raise LinkError("the link broke")
                found += event
            return found

        try:
            return Progress(is_over=True, result=program.run(SimulatedConnection(ask), *results))
        except _Paused as paused:
            return Progress(paused.link, tuple(paused.steps))
        except PystreamsError as error:
            return Progress(is_over=True, error=error.condition)


def alone(server: Server, run: Callable[..., Any]) -> Any:
    """Run a program to its end on the server in its current state."""
    return run(SimulatedConnection(lambda link, steps: b"".join(server.execute((99, link), step) for step in steps)))
