"""Commands with very many IDs run in steps: their effects, the data that other clients see meanwhile, and the log."""

from __future__ import annotations

from random import Random

import pytest

from engine.core.admission import Refusal
from engine.core.protocol import pace
from engine.core.protocol.ids import MAX_ID
from engine.core.protocol.replies import CommandError, Steps
from engine.core.streams import pending
from engine.wire.encode import encoded
from tests.engine.core.commands.stepwise import finished, go_on
from tests.engine.core.commands.test_long_replies import MEANWHILE, Side
from tests.harness.limits import lower
from tests.harness.replay import NOW_US, check_replay, state

#: Number of IDs in a command, and maximum number of IDs in a step.
IDS, STEP = 120, 10
_WORDS = " ".join(f"{number * 2}-1" for number in range(1, IDS + 1))

COMMANDS = [
    f"XACK s g {_WORDS}",
    f"XDEL s {_WORDS}",
    f"XDELEX s DELREF IDS {IDS} {_WORDS}",
    f"XDELEX s IDS {IDS} {_WORDS}",
    f"XACKDEL s g ACKED IDS {IDS} {_WORDS}",
    f"XNACK s g FAIL IDS {IDS} {_WORDS}",
    f"XNACK s g SILENT IDS {IDS} {_WORDS} RETRYCOUNT 7 FORCE",
    f"XCLAIM s g c-1 0 {_WORDS}",
    f"XCLAIM s g new 0 {_WORDS} IDLE 70 RETRYCOUNT 3 FORCE JUSTID LASTID 280-1",
    f"XAUTOCLAIM s g c-1 0 - COUNT {IDS}",
    f"XAUTOCLAIM s g new 0 30 COUNT {IDS} JUSTID",
    "XAUTOCLAIM s g c-1 1000 - COUNT 50",
    f"XREAD COUNT 1 STREAMS {'s ' * IDS}{'30 ' * IDS}".strip(),
    f"XREADGROUP GROUP g c-1 COUNT 1 STREAMS {'s ' * IDS}{'> ' * IDS}".strip(),
    "XGROUP DELCONSUMER s g c-1",
    "XTRIM s MAXLEN 20 ACKED",
    "XTRIM s MINID 290 DELREF",
    "XADD s MAXLEN 20 ACKED 999-1 f v",
]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits so that commands with a few IDs run in steps."""
    sizes = {
        "MANY_IDS": STEP, "PARSED": 50, "IDS": STEP, "GROUPS": 3, "BLOCKS": 1,
        "DELIVERED": STEP, "WORK": STEP, "OF_A_RANGE": 1.0, "OF_RECENT_ONES": 1.0, "OF_A_BLOCK": 0.0,
    }  # fmt: skip
    lower(monkeypatch, [(pace, sizes), (pending, {"BLOCK": 8})])


def begun(command: str) -> tuple[Side, Steps]:
    """Return a core that runs commands in steps, and the remaining steps of a command on it."""
    side = Side()
    side.core.allow_steps()
    steps = side.run(command, after_ms=5)
    assert type(steps) is Steps
    return side, steps


def hits(side: Side) -> tuple[int, int]:
    """Return how many lookups of keys have succeeded and failed."""
    return side.core.databases[0].hits, side.core.databases[0].misses


@pytest.mark.parametrize(
    ("command", "other"),
    [
        *((command, other) for command in COMMANDS for other in ("", MEANWHILE + "; XADD s * after steps")),
        *((command, "FLUSHALL; XADD s * after steps") for command in (COMMANDS[0], COMMANDS[7])),
    ],
    ids=lambda word: word[:12],
)
def test_all_steps_together_equal_the_command(command, other):
    """Steps give the same reply as a single run, one lookup of each stream, short commands in the log, and a log that
    gives the same data, even if other clients run commands between two steps.
    """
    whole = Side()
    expected = whole.run(command, after_ms=5)
    side, steps = begun(command)
    reply, count = finished(side, steps, {2: "XADD t * between steps", 4: other} if other else {})
    assert encoded(reply) == encoded(expected)
    logged = [argv for _, argv in side.core.changes.effects if isinstance(argv, list)]
    assert max(map(len, logged)) <= max(STEP + 16, 25)
    if not other:
        assert count >= IDS // STEP - 2
        assert state(side.core, times=True) == state(whole.core, times=True)
        assert hits(side) == hits(whole)
    check_replay(side.core, NOW_US + 9000)


@pytest.mark.parametrize(
    "command",
    [command for command in COMMANDS if _WORDS in command and "CLAIM" not in command],
    ids=lambda command: command[:12],
)
def test_a_wrong_id_prevents_all_changes(command):
    """All IDs are parsed first: an invalid one at the very end leaves the data unchanged."""
    side, steps = begun(command.replace("240-1", "240-x"))
    while (reply := go_on(side, steps)) is steps:
        pass
    assert isinstance(reply, CommandError)
    assert state(side.core) == state(Side().core)


@pytest.mark.parametrize(
    "command", ["XDELEX s DELREF IDS 1 8-1", "XDELEX s ACKED IDS 1 8-1", "XACKDEL s other-46 ACKED IDS 1 8-1"]
)
def test_references_of_many_groups_are_looked_up_in_steps(command):
    """A command with one ID that looks it up in many groups runs in steps, with the same result."""
    sides = Side(), Side()
    for side in sides:
        side.run("XACK s g 8-1;" + ";".join(f"XGROUP CREATE s other-{n} {5 if n > 45 else 8}-1" for n in range(50)))
        side.run(";".join(f"XREADGROUP GROUP other-{number} c COUNT 3 STREAMS s >" for number in (46, 48)))
    whole, side = sides
    expected = whole.run(command)
    side.core.allow_steps()
    reply, count = finished(side, side.run(command))
    assert count > 10
    assert (encoded(reply), state(side.core)) == (encoded(expected), state(whole.core))


@pytest.mark.parametrize("read", ["STREAMS s >", "NOACK STREAMS s >", "COUNT 150 STREAMS t s > >"])
def test_many_new_entries_are_delivered_in_steps(monkeypatch, read):
    """XREADGROUP delivers very many new entries in steps, with the same result, also after a replay of the log."""
    lower(monkeypatch, [(pace, {"MANY_SEGMENTS": 0, "MANY_ENTRIES": 50})])
    command, sides = f"XREADGROUP GROUP new c {read}", (Side(), Side())
    for side in sides:
        side.run("XGROUP CREATE s new 0; XGROUP CREATE t new 0")
    whole, side = sides
    expected = encoded(whole.run(command))
    side.core.allow_steps()
    reply, count = finished(side, side.run(command), {3: "XADD t * between steps; XDEL s 100-1"})
    whole.run("XADD t * between steps; XDEL s 100-1", after_ms=5)
    assert count > 10
    assert (encoded(reply), state(side.core)) == (expected, state(whole.core))
    check_replay(side.core, NOW_US + 5000)


@pytest.mark.parametrize("seed", range(6))
def test_acked_removes_exactly_what_no_group_needs(seed):
    """XTRIM ACKED, which does not examine pending entries twice, removes each time what no group needs."""
    random, side = Random(seed), Side()
    stream = side.core.databases[0].stream(b"s")
    assert stream is not None
    side.run("XGROUP CREATE s h 0")
    changes = [
        lambda: "XADD s * f v",
        lambda: f"XREADGROUP GROUP {random.choice('gh')} c-1 COUNT {random.randint(1, 60)} STREAMS s >",
        lambda: f"XACK s {random.choice('gh')} {' '.join(f'{random.randint(1, 300)}-1' for _ in range(20))}",
        lambda: f"XDEL s {random.randint(1, 300)}-1",
        lambda: f"XGROUP DELCONSUMER s g c-{random.randint(0, 9)}",
        lambda: f"XGROUP SETID s h {random.choice(['0', '$', '150'])}",
        lambda: f"XNACK s h FAIL IDS 1 {random.randint(1, 300)}-1",
        lambda: "XGROUP DESTROY s h",
        lambda: "XGROUP CREATE s h 100",
        lambda: f"PS.ACKRANGE s g {random.randint(1, 150)} {random.randint(150, 300)}",
    ]
    for _ in range(60):
        side.run(random.choice(changes)())
        if random.random() < 0.5:
            continue
        before, most = stream.ids(0, MAX_ID), random.choice([0, 50, 150, len(stream.ids(0, MAX_ID)) - 1])
        groups = stream.groups.values()
        free = [i for i in before if all(i <= group.last_id and i not in group.pending for group in groups)]
        side.run(f"XTRIM s MAXLEN {max(most, 0)} ACKED")
        gone = free[: max(len(before) - max(most, 0), 0)]
        assert stream.ids(0, MAX_ID) == [i for i in before if i not in gone]


@pytest.mark.parametrize("why", [Refusal.DISK, Refusal.READONLY, Refusal.LOADING])
def test_a_command_is_completed_even_if_it_would_now_be_rejected(why):
    """If the disk is full, or data is being loaded, a command that runs in steps is still completed."""
    side, steps = begun(f"XDEL s {_WORDS}")
    for _ in range(6):
        assert go_on(side, steps) is steps
    side.core.admission.refuse(why, b"ERR not now")
    assert isinstance(finished(side, steps)[0], int)
    whole = Side()
    whole.run(f"XDEL s {_WORDS}")
    assert state(side.core) == state(whole.core)
    check_replay(side.core, NOW_US + 5000)


def test_steps_are_one_call_in_the_statistics():
    """The slow log has one entry with the time of all steps; an error in a step counts as one failed call."""
    side, steps = begun(f"XDEL s {_WORDS}")
    telemetry = side.core.telemetry
    telemetry.stopwatch = lambda: telemetry.measured_ns + 2_000_000
    count = 1
    while go_on(side, steps) is steps:
        count += 1
    assert [(entry.words[0], entry.microseconds) for entry in telemetry.slow_log] == [(b"XDEL", 2000 * count)]
    stat = telemetry.stats[b"xdel"]
    calls, failed = stat.calls, stat.failed
    steps = side.run(f"XDEL s {_WORDS} x")
    while go_on(side, steps) is steps:
        pass
    assert (stat.calls, stat.failed) == (calls + 1, failed + 1)


@pytest.mark.parametrize("command", COMMANDS[::4], ids=lambda command: command[:12])
def test_a_transaction_runs_without_steps(command):
    """In MULTI and EXEC a command runs at once, without other commands in between."""
    whole = Side()
    expected = whole.run(command, after_ms=5)
    side = Side()
    side.core.allow_steps()
    assert encoded(side.run(f"MULTI; {command}; EXEC", after_ms=5)) == encoded([expected])
    assert state(side.core) == state(whole.core)


HISTORY = [
    "XREADGROUP GROUP g c-1 STREAMS s 0",
    "XREADGROUP GROUP g c-1 COUNT 90 STREAMS s 17-1",
    "XREADGROUP GROUP g c-1 MAXSIZE 3000 STREAMS s s 0 30",
    "XREADGROUP GROUP g c-1 MAXCOUNT 70 STREAMS s s 0 0",
    "XREADGROUP GROUP g c-1 STREAMS s s 90 >",
]


def with_history() -> Side:
    """Return a core in which c-1 has most pending entries, some of them in blocks of several owners."""
    side = Side()
    side.run("XCLAIM s g c-1 0 " + " ".join(f"{number}-1" for number in range(1, 250) if number % 40))
    side.run("XCLAIM s g c-3 0 " + " ".join(f"{number}-1" for number in range(100, 250, 7)))
    return side


@pytest.mark.parametrize("command", HISTORY)
def test_a_history_in_steps_equals_the_command(command):
    """Without other commands in between, pending entries read in steps are those of a single run."""
    whole, side = with_history(), with_history()
    expected = whole.run(command, after_ms=5)
    side.core.allow_steps()
    reply, count = finished(side, side.run(command, after_ms=5))
    assert count >= 3
    assert encoded(reply) == encoded(expected)
    assert state(side.core, times=True) == state(whole.core, times=True)
    assert hits(side) == hits(whole)
    check_replay(side.core, NOW_US + 5000)
