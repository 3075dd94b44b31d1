"""A run of XADDs executed at once, against the same commands executed one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.dispatch import Core
from engine.core.protocol import ids
from engine.core.protocol.replies import BLOCKED
from engine.core.protocol.xadd import XaddRun
from engine.settings.config import Config
from engine.wire.bulk import WORTH_IT, Scanner
from engine.wire.encode import encode
from engine.wire.parser import RequestParser

NOW = 1_700_000_000_000_000
MANY = 64
VALUES = st.binary(max_size=12) | st.sampled_from([b"a\r\nb", b"", b"$3\r\nabc\r\n", b"*1\r\n", b"x" * 120, b"\n"])
#: Bytes that look like an embedded command or a part of one.
COMMAND = b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$2\r\nf0\r\n$1\r\nv\r\n"


def encoded(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


@st.composite
def pipelines(draw):
    """Return a pipeline of mostly equal XADDs, sometimes with other commands, sometimes truncated."""
    keys = draw(st.sampled_from([[b"s"], [b"s"], [b"a", b"b", b"longer"], [b"%d" % n for n in range(100)]]))
    options = draw(st.sampled_from([(), (), (b"MAXLEN", b"7"), (b"MAXLEN", b"~", b"10"), (b"NOMKSTREAM",)]))
    explicit = draw(st.booleans())
    fields = draw(st.integers(1, 3))
    values = draw(
        st.sampled_from(
            [
                VALUES,
                st.binary(min_size=3, max_size=5),
                st.integers(0, 60).map(lambda size: b"y" * size),
                st.sampled_from([b"v", COMMAND, COMMAND[:30], COMMAND[9:], b"w"]),
            ]
        )
    )
    out = []
    for number in range(draw(st.integers(1, 3 * MANY))):
        entry_id = b"%d-%d" % (number // 3 + 1, number % 3 + 1) if explicit else b"*"
        if draw(st.integers(0, 60)) == 0:
            entry_id = draw(st.sampled_from([b"5-5", b"0-0", b"007-1", b"x", b"9-*", b"*"]))
        words = [w for f in range(fields) for w in (b"f%d" % f, draw(values))]
        if draw(st.integers(0, 80)) == 0:
            words.append(b"odd")
        name = draw(st.sampled_from([b"XADD"] * 60 + [b"xadd", b"XLEN"]))
        out.append(encoded(name, keys[number % len(keys)], *options, entry_id, *words))
    data = b"".join(out)
    return data[: len(data) - draw(st.sampled_from([0, 0, 1, 7]))]


def one_by_one(core: Core, session, data: bytes) -> bytes:
    out: list[bytes] = []
    for argv in RequestParser().parse(data):
        encode(core.execute(session, argv, NOW), 2, out)
    return b"".join(out)


def state(core: Core):
    return {
        key: (
            b"".join(bytes(part) for part in stream.range(0, ids.MAX_ID, 0).parts),
            stream.length,
            stream.last_id,
            stream.entries_added,
        )
        for key, stream, _ in core.databases[0].items()
    }


def make() -> tuple[Core, object]:
    core = Core(Config())
    core.changes.recording = True
    return core, core.open_session(NOW)


def encoded_reply(reply) -> list[bytes]:
    out: list[bytes] = []
    encode(reply, 2, out)
    return out


def scan(data: bytes) -> XaddRun | None:
    return Scanner(patience=0).scan(data)


def effects(core: Core) -> list[tuple[list[bytes], int]]:
    session = core.open_session(NOW)
    twin = Core(Config())
    for _, argv in core.changes.effects:
        commands = RequestParser().parse(argv) if isinstance(argv, bytes) else [argv]
        for command in commands:
            if command[0] not in (b"MULTI", b"EXEC"):
                twin.execute(session, command, NOW)
    return state(twin)


@given(pipelines())
def test_a_run_has_the_effects_of_its_commands(data):
    """Replies, streams and effects of a pipeline are the same whether it is executed in runs or command by command."""
    slow, slow_session = make()
    expected = one_by_one(slow, slow_session, data)
    core, session = make()
    out, at = b"", 0
    scanner = Scanner(patience=0)
    while True:
        run = scanner.scan(data, at)
        replies = core.execute_run(session, run, NOW) if run is not None else None
        if replies is None:
            break
        out += b"".join(replies)
        at = run.end
    out += one_by_one(core, session, data[at:])
    assert out == expected
    assert state(core) == state(slow)
    assert effects(core) == effects(slow) == state(slow)


def test_a_plain_pipeline_is_one_run():
    """A thousand commands for one key, for ten keys, or with explicit IDs form one run each."""
    for key, entry_id in ((b"s", b"*"), (b"s%d", b"*"), (b"s", b"%d-1")):
        data = b"".join(
            encoded(
                b"XADD",
                key % (n % 10) if b"%" in key else key,
                entry_id % (n + 1000) if b"%" in entry_id else entry_id,
                b"sensor",
                b"%d" % n,
                b"value",
                b"19.%d" % n,
            )
            for n in range(1000)
        )
        run = scan(data)
        assert run is not None
        assert (run.count, run.end) == (1000, len(data))
        core, session = make()
        assert core.execute_run(session, run, NOW) is not None


@pytest.mark.parametrize(
    "blocker", [(b"SET", b"5", b"text"), (b"XADD", b"5", b"%d-%d" % (2**64 - 1, 2**64 - 3), b"f", b"v")]
)
def test_a_run_for_many_keys_is_declined_as_a_whole(blocker):
    """A key of another type, or a last ID near the maximum, declines the run before any entry is added."""
    core, session = make()
    core.execute(session, list(blocker), NOW)
    run = scan(b"".join(encoded(b"XADD", b"%d" % n, b"*", b"f", b"v%d" % n) for n in range(10) for _ in range(4)))
    assert run is not None
    assert run.count == 40
    before = state(core) if blocker[0] == b"XADD" else {}
    assert core.execute_run(session, run, NOW) is None
    assert core.execute(session, [b"DBSIZE"], NOW) == 1
    assert blocker[0] == b"SET" or state(core) == before


def test_a_blocked_reader_gets_the_entries_of_a_run():
    """A blocked XREAD returns a run's entries, of one command or of many, and later runs do not affect its reply."""
    for count in (1, 5):
        core, session = make()
        core.execute(session, [b"XADD", b"s", b"1-1", b"f", b"v"], NOW)
        reader = core.open_session(NOW)
        assert core.execute(reader, [b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"], NOW) is BLOCKED
        for _ in range(2):
            core.execute_run(session, scan(encoded(b"XADD", b"s", b"*", b"f", b"w") * count), NOW)
        [(served, reply)] = core.outbox
        assert served is reader
        assert b"".join(map(bytes, encoded_reply(reply))).count(b"\r\nw\r\n") == count


def test_the_scanner_compiles_an_expression_after_few_commands():
    """Pipelines of sixteen commands are runs from about the hundredth command on, also when two forms alternate."""
    scanner = Scanner()
    pipeline = b"".join(encoded(b"XADD", b"s", b"*", b"f", b"%d" % number) for number in range(10, 26))
    other = b"".join(encoded(b"XADD", b"t", b"*", b"g", b"%d" % number, b"h", b"") for number in range(10, 26))
    found = [scanner.scan(data) is not None for data in [pipeline] * 10]
    assert found.index(True) == -(-WORTH_IT // 16) - 1
    assert all(found[found.index(True) :])
    while scanner.scan(other) is None:
        pass
    for _ in range(5):
        assert scanner.scan(pipeline).count == scanner.scan(other).count == 16
