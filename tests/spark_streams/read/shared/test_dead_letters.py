"""Dead letters of batches that are scanned concurrently, or whose scans are killed: each entry becomes one letter."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from spark_streams.errors import PystreamsError
from streamclient.link import Link
from streamclient.streams import dead_letters
from tests.spark_streams.driver import Query, Site
from tests.spark_streams.write.test_refusals import STATES, refusing, without

POISON = 3
#: Permissions by the name of a way. The engine runs no scripts: instead of EVAL, PS.EXEC is allowed or not.
WAYS = {"script": "+@all", "notes": "+@all -eval"}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, site: Site) -> Iterator[str]:
    """User `job` with the permissions that select one way of moving letters; the value is its name."""
    rules = WAYS[request.param].replace("-eval", "-ps.exec" if site.kind == "engine" else "-eval")
    site.client.execute_command("ACL", "SETUSER", "job", "reset", "on", ">x", "~*", *rules.split())
    yield request.param
    site.client.acl_deluser("job")


def poisoned(site: Site, count: int = POISON) -> Query:
    """Return a query whose only batch exceeds `maxDeliveries` at its next scan."""
    site.add("s", count, raw="x\r\n\xff")
    url = site.url.replace("://", "://job:x@")
    options = {"stream": "s", "group": "g", "consume": "shared", "startingOffsets": "earliest"}
    query = Query(url, "_id string, n int", maxDeliveries=1, deadLetterStream="dead", retryTimeoutMs=10_000, **options)
    query.trigger()
    query.restart()
    return query


def letters(site: Site) -> Counter[bytes]:
    """Return the number of letters in the dead-letter stream for each original ID."""
    return Counter(fields[b"_original_id"] for _, fields in site.client.xrange("dead"))


EACH_ONCE = Counter({b"%d-1" % n: 1 for n in range(1, POISON + 1)})


class Killed(BaseException):
    """Simulated death of a worker."""


@contextmanager
def at_request(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], None], *, after: bool) -> Iterator[Any]:
    """Call `act` before or after request `number` of the first move of letters, and yield a list with the number of
    requests of that move.
    """
    send, move = Link.pipeline, dead_letters.move
    requests = [0]
    mover = threading.get_ident()
    moving = [False, False]

    def noticed(link: Link, commands: Sequence[Any]) -> Any:
        if not moving[0] or threading.get_ident() != mover or not commands:
            return send(link, commands)
        requests[0] += 1
        acts = requests[0] == number
        if acts and not after:
            moving[0] = False
            act()
            moving[0] = True
        replies = send(link, commands)
        if acts and after:
            moving[0] = False
            act()
            moving[0] = True
        return replies

    def first(*words: Any) -> None:
        if moving[1]:
            return move(*words)
        moving[:] = True, True
        try:
            return move(*words)
        finally:
            moving[0] = False

    with monkeypatch.context() as patch:
        patch.setattr(Link, "pipeline", noticed)
        patch.setattr(dead_letters, "move", first)
        yield requests


def clear(site: Site) -> None:
    for key in site.client.keys("*"):
        site.client.delete(key)


def test_two_concurrent_scans_move_no_letter_twice(
    site: Site,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a second scan runs before any request of the first scan's move, each entry becomes one letter."""
    for number in itertools.count(1):
        query, other = poisoned(site), []
        with at_request(monkeypatch, number, lambda q=query, o=other: o.append(q.run()), after=False):
            assert query.run() == []
        assert (letters(site), site.group()["pending"]) == (EACH_ONCE, 0), number
        assert not site.client.keys("*:dead:*"), number
        clear(site)
        if not other:
            break
        assert other == [[]], number
    assert number > 2


@pytest.mark.parametrize("after", [False, True])
def test_a_killed_scan_loses_and_duplicates_no_letter(
    site: Site,
    way: str,
    after: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a worker is killed before or after any request of a move, the next scan completes the move."""

    def killed() -> None:
        raise Killed

    for number in itertools.count(1):
        query = poisoned(site)
        try:
            with at_request(monkeypatch, number, killed, after=after):
                query.run()
            break
        except Killed:
            query.restart()
        assert query.run() == []
        assert (letters(site), site.group()["pending"]) == (EACH_ONCE, 0), number
        clear(site)
    assert number > 2


@pytest.mark.parametrize("refusal", ["OOM", "READONLY", "NOPERM xadd", "NOPERM xack", "NOPERM hdel"])
def test_the_next_scan_completes_a_move_that_was_rejected(
    site: Site, way: str, refusal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If any request of a scan is rejected, the next scan completes the move and each entry becomes one letter."""
    state = {**STATES, **{f"NOPERM {command}": without(command) for command in ("xack", "hdel")}}[refusal]
    number, requests = 0, [1]
    while number <= requests[0]:
        number += 1
        query = poisoned(site)
        with refusing(monkeypatch, site.client, state, number, at_exec=False) as requests:
            try:
                query.run()
            except PystreamsError as problem:
                assert problem.condition in ("NOT_PERMITTED", "SERVER_REFUSED"), (number, problem)  # noqa: PT017
        query.restart()
        assert query.run() == []
        assert (letters(site), site.group()["pending"]) == (EACH_ONCE, 0), (number, way)
        clear(site)
    assert number > 2


def test_an_entry_that_another_program_has_taken_becomes_no_letter(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that another program acknowledges or claims during the scan is not moved."""
    site.client.execute_command("ACL", "SETUSER", "job", "reset", "on", ">x", "~*", "+@all")
    query = poisoned(site)

    def take() -> None:
        site.client.xack("s", "g", "1-1")
        site.client.xclaim("s", "g", "other", 0, ["2-1"])

    try:
        with at_request(monkeypatch, 1, take, after=True):
            query.run()
    finally:
        site.client.acl_deluser("job")
    assert letters(site) == Counter({b"3-1": 1})
    assert [row["message_id"] for row in site.client.xpending_range("s", "g", "-", "+", 9, "other")] == [b"2-1"]
