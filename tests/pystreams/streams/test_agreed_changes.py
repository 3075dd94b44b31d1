"""Destructive verbs do only what was shown, however much has changed between the plan and the confirmation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from pystreams.commands.verbs import Run
from tests.pystreams.conftest import Cli

Meanwhile = Callable[[redis.Redis], Any]


def _fill(client: redis.Redis, entries: int = 20, delivered: int = 10) -> None:
    """Write a stream whose group has delivered some entries to one consumer."""
    for number in range(1, entries + 1):
        client.xadd("s", {"n": number}, id=f"{number}-0")
    client.xgroup_create("s", "g", 0)
    if delivered:
        client.xreadgroup("g", "alice", {"s": ">"}, count=delivered)


def _letters(client: redis.Redis, count: int) -> None:
    for _ in range(count):
        origin = {"_original_stream": "o", "_original_id": "1-0", "_original_deliveries": 3, "_reason": "r"}
        client.xadd("dead", {**origin, "n": 1})


def _add(count: int) -> Meanwhile:
    return lambda client: [client.xadd("s", {"n": 0}) for _ in range(count)]


def _deliver(client: redis.Redis) -> None:
    client.xreadgroup("g", "alice", {"s": ">"})


def _move(client: redis.Redis) -> None:
    client.xgroup_setid("s", "g", "19-0")


def _pending(client: redis.Redis) -> int:
    return int(client.xpending("s", "g")["pending"])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, client: redis.Redis) -> Callable[[Meanwhile], list[str]]:
    """A function that sets what happens while the first question is shown. Returns the list of questions."""

    def during(meanwhile: Meanwhile) -> list[str]:
        questions: list[str] = []

        def may(run: Run, plan: str, *_: Any) -> bool:
            questions.append(plan)
            if len(questions) == 1:
                meanwhile(client)
            return True

        monkeypatch.setattr(Run, "may", may)
        return questions

    return during


@pytest.mark.parametrize(
    ("words", "meanwhile", "left"),
    [
        ("trim s --maxlen 10", _add(50), lambda client: client.xlen("s") == 60),
        ("pending ack s g --all", _deliver, lambda client: _pending(client) == 10),
        ("pending claim s g --to bob --all", _deliver, lambda client: client.xpending("s", "g")["pending"] == 20),
        ("dlq purge dead --all", lambda client: _letters(client, 5), lambda client: client.xlen("dead") == 5),
    ],
    ids=["trim", "ack", "claim", "purge"],
)
def test_the_command_line_changes_only_the_entries_that_it_showed(
    cli_of: Cli,
    client: redis.Redis,
    asked: Callable[[Meanwhile], list[str]],
    words: str,
    meanwhile: Meanwhile,
    left: Callable[[redis.Redis], bool],
) -> None:
    """Entries that were added or delivered while the question was shown are neither removed nor acknowledged."""
    _fill(client)
    _letters(client, 10)
    questions = asked(meanwhile)
    result = cli_of.result(*words.split())
    assert (result.exit_code, len(questions)) == (0, 1), result.output
    assert left(client)
    if "claim" in words:
        counts = {each["name"]: each["pending"] for each in client.xinfo_consumers("s", "g")}
        assert counts == {b"alice": 10, b"bob": 10}


@pytest.mark.parametrize(
    ("words", "meanwhile", "shown"),
    [
        ("rm s", _add(100), "with 120 entries"),
        ("groups rm s g", _deliver, "with 20 pending entries"),
        ("consumers rm s g alice --with-pending", _deliver, "with 20 pending entries"),
        ("groups seek s g --to 5-0", _move, "from 19-0"),
    ],
    ids=["stream", "group", "consumer", "seek"],
)
def test_the_command_line_shows_an_outdated_plan_again(
    cli_of: Cli,
    client: redis.Redis,
    asked: Callable[[Meanwhile], list[str]],
    words: str,
    meanwhile: Meanwhile,
    shown: str,
) -> None:
    """If facts have changed while the question was shown, nothing is changed, and the new plan is a new question."""
    _fill(client)
    questions = asked(meanwhile)
    result = cli_of.result(*words.split())
    assert (result.exit_code, len(questions)) == (0, 2), result.output
    assert shown not in questions[0]
    assert shown in questions[1]
    assert "This is the new plan" in result.stderr
