"""Requests of commands to the process that runs the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.environment.host import Host, ProcessFacts
from engine.core.protocol.replies import NO_REPLY, OK, CommandError, Reply
from engine.settings.config import Config
from engine.text import messages

NOW_US = 1_700_000_000_000_000


class Recorder(Host):
    """A stand-in for the process that records requests."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Any, ...]] = []

    def close(self, session: Session) -> None:
        self.asked.append(("close", session.id))

    def follow_pause(self) -> None:
        self.asked.append(("follow_pause",))

    def shut_down(self) -> None:
        self.asked.append(("shut_down",))

    def sleep(self, seconds: float) -> None:
        self.asked.append(("sleep", seconds))

    def give_back_memory(self) -> None:
        self.asked.append(("give_back_memory",))

    def rewrite_configuration(self) -> None:
        self.asked.append(("rewrite_configuration",))

    def reset_statistics(self) -> None:
        self.asked.append(("reset_statistics",))

    def facts(self) -> ProcessFacts:
        return ProcessFacts(pid=7, memory=3 << 20, memory_peak=4 << 20, now_us=NOW_US + 5, started_us=NOW_US)


def core_of(config: Config | None = None) -> tuple[Core, Callable[[str], Reply]]:
    """Return a core and a client of it that may call DEBUG; a second client has the ID 2."""
    config = config or Config()
    config.put("enable-debug-command", b"yes")
    core = Core(config)
    session = core.open_session(NOW_US)
    core.open_session(NOW_US)
    return core, lambda line: core.execute(session, line.encode().split(), NOW_US)


@pytest.mark.parametrize(
    ("line", "reply", "asked"),
    [
        ("CLIENT KILL ID 2", 1, ("close", 2)),
        ("CLIENT PAUSE 100", OK, ("follow_pause",)),
        ("CLIENT UNPAUSE", OK, ("follow_pause",)),
        ("SHUTDOWN NOSAVE", NO_REPLY, ("shut_down",)),
        ("DEBUG SLEEP 0.5", OK, ("sleep", 0.5)),
        ("MEMORY PURGE", OK, ("give_back_memory",)),
        ("CONFIG REWRITE", OK, ("rewrite_configuration",)),
        ("CONFIG RESETSTAT", OK, ("reset_statistics",)),
    ],
)
def test_a_command_asks_the_process(line: str, reply: Reply, asked: tuple[Any, ...]) -> None:
    """Each of these commands makes one request to the process, with the client's arguments."""
    core, run = core_of()
    core.host = host = Recorder()
    assert run(line) == reply
    assert host.asked == [asked]


def test_the_caller_itself_is_closed_after_its_reply() -> None:
    """CLIENT KILL of the client's own connection makes no request: the session closes after the reply."""
    core, run = core_of()
    core.host = host = Recorder()
    assert run("CLIENT KILL ID 1 SKIPME no") == 1
    assert host.asked == []
    session = core.sessions.get(1)
    assert session is not None
    assert session.close_after_reply
    assert not session.close_requested


def test_info_shows_facts_about_the_process() -> None:
    """INFO shows the facts that the process provides."""
    core, run = core_of()
    core.host = Recorder()
    lines = run("INFO").decode().splitlines()
    assert {"process_id:7", f"server_time_usec:{NOW_US + 5}", f"used_memory:{3 << 20}"} <= set(lines)


@pytest.mark.parametrize("line", ["INFO everything", "MEMORY PURGE", "DEBUG SLEEP 1"])
def test_a_core_without_a_process_replies(line: str) -> None:
    """Commands about the process succeed in a core without a process."""
    _, run = core_of()
    assert not isinstance(run(line), CommandError)


def test_config_rewrite_needs_a_process() -> None:
    """CONFIG REWRITE is rejected if there is no configuration file."""
    _, run = core_of()
    assert run("CONFIG REWRITE").text == messages.NO_CONFIG_FILE
