"""Writes that the server rejects temporarily, at any request: each row is written once by the next attempt."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import pyarrow as pa
import pytest
import redis

from spark_streams.config.write import WriteOptions
from spark_streams.errors import PystreamsError
from spark_streams.write.encoding import WriteSchema
from spark_streams.write.sink import Sink
from streamclient.config.address import parse
from streamclient.link import Link
from streamclient.pool import close_all
from streamclient.replies import pack
from tests import servers
from tests.spark_streams.write.test_attempts import Attempt, numbers
from tests.suite.long import long_only
from tests.suite.waiting import wait_for

ROWS = 12
_EXEC = pack("EXEC")


class State:
    """A state in which the server rejects writes, entered by `begin` and left by `end`."""

    def __init__(self, begin: Sequence[Any], end: Sequence[Any]) -> None:
        self._begin, self._end = begin, end

    def begin(self, client: redis.Redis) -> None:
        client.execute_command(*self._begin)

    def end(self, client: redis.Redis) -> None:
        client.execute_command(*self._end)


def _lines(link: Link) -> int:
    """Return the number of received lines that were not read yet."""
    with suppress(BlockingIOError):
        return link._socket().recv(1 << 16, socket.MSG_PEEK | socket.MSG_DONTWAIT).count(b"\r\n")
    return 0


def _config(name: str, value: str, usual: str) -> State:
    return State(("CONFIG", "SET", name, value), ("CONFIG", "SET", name, usual))


def state_of(refusal: str, client: redis.Redis) -> State:
    """Return the state with this refusal. PS.EXEC is refused instead of EVAL, which the engine lacks."""
    if refusal == "NOPERM eval" and "engine_name" in client.info("server"):
        return without("ps.exec")
    return {**STATES, **LONG_STATES}[refusal]


def without(command: str) -> State:
    """Return the state in which the user may not call this command."""
    return State(("ACL", "SETUSER", "job", f"-{command}"), ("ACL", "SETUSER", "job", f"+{command}"))


STATES = {
    "OOM": _config("maxmemory", "1", "0"),
    "NOREPLICAS": _config("min-replicas-to-write", "1", "0"),
    "READONLY": State(("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")),
    "MISCONF": _config("save", "3600 1", ""),
    **{f"NOPERM {command}": without(command) for command in ("xadd", "hset", "eval", "exec")},
}
_MORE_COMMANDS = "watch unwatch multi hmget hsetnx hgetall hdel pexpire xinfo hexists xrange xtrim info command"
_SHORT = ("OOM", "READONLY", "NOPERM xadd", "NOPERM hset")
LONG_STATES = {f"NOPERM {command}": without(command) for command in _MORE_COMMANDS.split()}


@contextmanager
def refusing(
    monkeypatch: pytest.MonkeyPatch, client: redis.Redis, state: State, number: int, *, at_exec: bool
) -> Iterator[list[int]]:
    """Put the server in this state during request `number`, and yield a list with the number of requests.

    With `at_exec`, the state starts when the commands of the transaction are queued, before its EXEC; requests without
    EXEC are not counted.
    """
    pipeline, send_raw = Link.pipeline, Link.send_raw
    requests = [0]
    pending: list[Link] = []  # links whose raw request is in flight in the state

    def is_its_turn() -> bool:
        requests[0] += 1
        return requests[0] == number

    def pipelined(link: Link, commands: Sequence[Any]) -> Any:
        if pending:
            settle()
        ends = [at for at, command in enumerate(commands) if command in (("EXEC",), ("PS.EXEC",))]
        if (at_exec and not ends) or not commands or not is_its_turn():
            return pipeline(link, commands)
        first = ends[-1] if at_exec else 0
        replies = pipeline(link, commands[:first])
        state.begin(client)
        try:
            return replies + pipeline(link, commands[first:])
        finally:
            state.end(client)

    def sent(link: Link, *data: Any) -> bytes:
        ends = [at for at, buffer in enumerate(data) if bytes(buffer) == _EXEC]
        if (at_exec and not ends) or pending or not is_its_turn():
            return send_raw(link, *data)
        if at_exec:
            queued = b"".join(map(bytes, data[: ends[-1]]))
            link._socket().sendall(queued)
            count = len(re.findall(rb"\*\d+\r\n\$", queued))
            wait_for(lambda: _lines(link) >= count, "the commands to queue")
            data = data[ends[-1] :]
        state.begin(client)
        pending.append(link)
        return send_raw(link, *data)

    def settle() -> None:
        (link,) = pending
        pending.clear()
        try:
            link.receive_due()
        finally:
            state.end(client)

    receive = Link.receive

    def received(link: Link, token: bytes) -> Any:
        if pending:
            settle()
        return receive(link, token)

    with monkeypatch.context() as patch:
        patch.setattr(Link, "pipeline", pipelined)
        patch.setattr(Link, "send_raw", sent)
        patch.setattr(Link, "receive", received)
        yield requests
    if pending:
        state.end(client)


@pytest.fixture
def url(client: redis.Redis, instance: servers.Running) -> Iterator[str]:
    """Address with a user `job` whose permissions can be revoked."""
    client.execute_command("ACL", "SETUSER", "job", "reset", "on", ">x", "~*", "+@all")
    yield instance.url.replace("://", "://job:x@")
    client.acl_deluser("job")


@contextmanager
def failed_snapshot(client: redis.Redis, instance: servers.Running) -> Iterator[None]:
    """Make the server's last snapshot fail while the block runs; at the end, make one succeed."""
    path = instance.directory / "dump.rdb"
    path.unlink(missing_ok=True)
    path.mkdir()
    snapshot(client, "err")
    yield
    path.rmdir()
    snapshot(client, "ok")
    path.unlink(missing_ok=True)


def snapshot(client: redis.Redis, status: str) -> None:
    """Take a snapshot, and wait until the last snapshot has this status."""
    with suppress(redis.ResponseError):
        client.bgsave()
    wait_for(lambda: client.info("persistence")["rdb_last_bgsave_status"] == status, f"the snapshot: {status}")


def write(url: str, mode: str, name: str, note: Callable[[], None] = lambda: None) -> None:
    """Run one attempt of a batch of two tasks."""
    attempt = Attempt(url, name, mode, more={"maxlen": 1000})
    try:
        attempt.task(0, range(ROWS // 2))
        note()
        attempt.task(1, range(ROWS // 2, ROWS))
        attempt.commit()
    finally:
        attempt.connection.close()


#: If HSET is rejected at EXEC, a transaction adds rows without counting them, so the case is omitted. A move of staged
#: rows checks HSET before it adds rows.
CASES = [
    pytest.param(refusal, mode, at_exec, marks=() if mode != "atomic" and refusal in _SHORT else long_only)
    for refusal in (*STATES, *LONG_STATES)
    for mode in ("exactlyOnce", "atomic", "staged")
    for at_exec in (False, True)
    if (refusal, at_exec) != ("NOPERM hset", True) or mode == "staged"
]


@pytest.mark.parametrize(("refusal", "mode", "at_exec"), CASES)
def test_the_next_attempt_completes_a_rejected_write(
    client: redis.Redis,
    instance: servers.Running,
    url: str,
    refusal: str,
    mode: str,
    at_exec: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If any request of an attempt is rejected, the next attempt writes the remaining rows, each once."""
    state = state_of(refusal, client)
    number, requests = 0, [1]
    with failed_snapshot(client, instance) if refusal == "MISCONF" else nullcontext():
        while number <= requests[0]:
            number += 1
            with refusing(monkeypatch, client, state, number, at_exec=at_exec) as requests:
                try:
                    write(url, mode, "first")
                except PystreamsError as problem:
                    assert problem.condition in ("NOT_PERMITTED", "SERVER_REFUSED"), (number, problem)  # noqa: PT017
            write(url, mode, "second")
            assert sorted(numbers(client)) == [*range(ROWS)], number
            client.flushall()
    assert number > 2


@pytest.mark.parametrize("overwrite", [False, True], ids=["append", "overwrite"])
@pytest.mark.parametrize(
    "refusal",
    [
        "OOM",
        "NOPERM xtrim",
        *(pytest.param(each, marks=long_only) for each in ("NOREPLICAS", "READONLY", "NOPERM xadd")),
    ],
)
def test_a_rejected_append_can_be_repeated(
    client: redis.Redis, url: str, refusal: str, overwrite: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rejected append fails with an error of the server; the next run adds all rows, and overwriting leaves no other
    rows.
    """
    state = {**STATES, "NOPERM xtrim": without("xtrim")}[refusal]
    rows = pa.RecordBatch.from_pydict({"n": pa.array(range(ROWS), pa.int64())})
    options = WriteOptions(stream="s", mode="append", chunk_size=5, maxlen=1000)
    number, requests = 0, [1]

    def run() -> None:
        sink = Sink(parse(url), options, WriteSchema(("n",), False, False, False), overwrite=overwrite)
        sink.finish([sink.write(iter([rows]))])

    while number <= requests[0]:
        number += 1
        client.xadd("s", {"n": -1})
        with refusing(monkeypatch, client, state, number, at_exec=False) as requests:
            try:
                run()
            except PystreamsError as problem:
                assert problem.condition in ("NOT_PERMITTED", "SERVER_REFUSED"), (number, problem)  # noqa: PT017
        run()
        found = numbers(client)
        assert sorted(set(found)) == [*([] if overwrite else [-1]), *range(ROWS)], number
        assert not overwrite or len(found) == ROWS, number
        close_all()
        client.flushall()
    assert number > 2


@pytest.mark.parametrize("mode", ["append", "exactlyOnce", "atomic", "staged"])
def test_a_write_waits_for_memory(client: redis.Redis, url: str, mode: str) -> None:
    """A write to a server that has reached its maxmemory is retried, and succeeds when the server has memory again."""
    client.config_resetstat()
    client.config_set("maxmemory", 1)

    def free() -> None:
        wait_for(lambda: client.info("errorstats").get("errorstat_OOM"), "a refusal")
        client.config_set("maxmemory", 0)

    freeing = threading.Thread(target=free)
    freeing.start()
    try:
        if mode == "append":
            rows = pa.RecordBatch.from_pydict({"n": pa.array(range(ROWS), pa.int64())})
            sink = Sink(parse(url), WriteOptions(stream="s", mode="append"), WriteSchema(("n",), False, False, False))
            sink.finish([sink.write(iter([rows]))])
        else:
            write(url, mode, "first")
    finally:
        freeing.join()
        client.config_set("maxmemory", 0)
    assert sorted(numbers(client)) == [*range(ROWS)]
    close_all()
