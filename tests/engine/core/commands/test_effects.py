"""Effects of commands on keys of any type are logged completely, as commands that do not depend on time or chance."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tests.harness.replay import NOW_US, check_replay, commands, new_core

KEYS = st.sampled_from([b"a", b"b", b"c"])
VALUES = st.sampled_from([b"", b"0", b"7", b"-1", b"x", b"hello", b"y" * 70, b"1.5"])
FIELDS = st.sampled_from([b"f", b"g", b"h"])
NUMBERS = st.sampled_from([b"-2", b"-1", b"0", b"1", b"2", b"100"])
TIMES = st.sampled_from([b"1", b"2", b"5", b"100"])


def call(name: bytes, *words: st.SearchStrategy[bytes] | bytes, more: st.SearchStrategy[bytes] | None = None):
    """Return a strategy for commands of these words, followed by one to three words of ``more``."""
    fixed = st.tuples(*(st.just(word) if isinstance(word, bytes) else word for word in words))
    rest = st.lists(more, min_size=1, max_size=3) if more is not None else st.just([])
    return st.builds(lambda first, last: [name, *first, *last], fixed, rest)


ABSOLUTE = st.sampled_from([b"%d" % (NOW_US // 1000 + ms) for ms in (-5, 3, 2000, 10**6)])
COMMANDS = st.one_of(
    call(b"SET", KEYS, VALUES),
    call(b"SET", KEYS, VALUES, st.sampled_from([b"NX", b"XX", b"GET", b"KEEPTTL"])),
    call(b"SET", KEYS, VALUES, st.sampled_from([b"EX", b"PX"]), TIMES),
    call(b"SET", KEYS, VALUES, b"PXAT", ABSOLUTE),
    call(b"SETNX", KEYS, VALUES),
    call(b"GETSET", KEYS, VALUES),
    call(b"GETDEL", KEYS),
    call(b"GETEX", KEYS, st.sampled_from([b"EX", b"PX"]), TIMES),
    call(b"GETEX", KEYS, b"PXAT", ABSOLUTE),
    call(b"GETEX", KEYS, b"PERSIST"),
    call(b"MSET", KEYS, VALUES, KEYS, VALUES),
    call(b"INCR", KEYS),
    call(b"DECRBY", KEYS, NUMBERS),
    call(b"APPEND", KEYS, VALUES),
    call(b"HSET", KEYS, FIELDS, VALUES),
    call(b"HMSET", KEYS, FIELDS, VALUES, FIELDS, VALUES),
    call(b"HSETNX", KEYS, FIELDS, VALUES),
    call(b"HDEL", KEYS, more=FIELDS),
    call(b"HINCRBY", KEYS, FIELDS, NUMBERS),
    call(b"DEL", more=KEYS),
    call(b"UNLINK", KEYS),
    call(b"RENAME", KEYS, KEYS),
    call(b"RENAMENX", KEYS, KEYS),
    call(b"COPY", KEYS, KEYS),
    call(b"COPY", KEYS, KEYS, b"DB", b"1", b"REPLACE"),
    call(b"MOVE", KEYS, b"1"),
    call(b"SWAPDB", b"0", b"1"),
    call(b"EXPIRE", KEYS, TIMES),
    call(b"PEXPIRE", KEYS, NUMBERS),
    call(b"PEXPIREAT", KEYS, ABSOLUTE),
    call(b"EXPIRE", KEYS, TIMES, st.sampled_from([b"NX", b"XX", b"GT", b"LT"])),
    call(b"PERSIST", KEYS),
    call(b"GET", KEYS),
    call(b"XADD", KEYS, b"*", b"f", VALUES),
    call(b"XADD", KEYS, b"MAXLEN", b"2", b"*", b"f", VALUES),
    call(b"XGROUP", b"CREATE", KEYS, b"g", b"0", b"MKSTREAM"),
    call(b"XREADGROUP", b"GROUP", b"g", b"c", b"BLOCK", b"0", b"STREAMS", KEYS, b">"),
    call(b"MULTI"),
    call(b"EXEC"),
    call(b"EXEC"),
    call(b"DISCARD"),
    call(b"WATCH", KEYS),
    st.sampled_from([[b"FLUSHDB"], [b"FLUSHALL"], [b"DUMPED"]]),
)
STEPS = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1]), COMMANDS, st.sampled_from([0, 0, 1, 3, 2500])), max_size=40)


@given(STEPS)
@example([(0, [b"SET", b"a", b"1", b"PX", b"2"], 3), (0, [b"INCR", b"a"], 0)])
def test_replayed_effects_restore_the_keys(steps):
    """Replaying the effects of random commands of two clients on an empty core gives the same keys."""
    core = new_core()
    sessions = [core.open_session(NOW_US), core.open_session(NOW_US)]
    now = NOW_US
    for who, argv, passing in steps:
        if sessions[who].waiter is None:
            core.execute(sessions[who], argv, now)
        now += passing * 1000
    check_replay(core, now)


def run(core, *lines: str):
    """Run commands and return their replies."""
    session = core.open_session(NOW_US)
    return [core.execute(session, line.encode().split(), NOW_US) for line in lines]


def effects_of(*lines: str) -> list[str]:
    """Run commands and return the effects of the last one."""
    core = new_core()
    *before, last = lines
    run(core, *before)
    first = len(core.changes.effects)
    run(core, last)
    return [b" ".join(argv).decode() for _, argv in commands(core.changes.effects[first:])]


def test_effects_are_canonical_commands():
    """The log has absolute times, and the results of commands that depend on the time."""
    ms = NOW_US // 1000
    assert effects_of("SET k v EX 10") == [f"SET k v PXAT {ms + 10_000}"]
    assert effects_of("SET k v NX GET") == ["SET k v"]
    assert effects_of("SET k 1", "SET k 2 KEEPTTL") == ["SET k 2 KEEPTTL"]
    assert effects_of("SET k 1", "EXPIRE k 5") == [f"PEXPIREAT k {ms + 5000}"]
    assert effects_of("SET k 1", "EXPIRE k -5") == ["DEL k"]
    assert effects_of("SET k 1", "GETEX k PX 5") == [f"PEXPIREAT k {ms + 5}"]
    assert effects_of("SET k 1", "GETDEL k") == ["DEL k"]
    assert effects_of("SET a 1", "DEL a b") == ["DEL a"]


def test_a_command_without_a_change_has_no_effect():
    """A command that changes nothing is not logged."""
    for line in ("DEL k", "GETDEL k", "HDEL k f", "EXPIRE k 5", "SET k v XX", "PERSIST k"):
        assert effects_of(line) == [], line


def test_a_transaction_is_one_unit_in_the_log():
    """The effects of EXEC are logged between MULTI and EXEC; a single effect is logged alone."""
    assert effects_of("PING") == []
    core = new_core()
    run(core, "MULTI", "SET a 1", "GET a", "SET b 2", "EXEC")
    assert [argv[0] for _, argv in core.changes.effects] == [b"MULTI", b"SET", b"SET", b"EXEC"]
    core.changes.effects.clear()
    run(core, "MULTI", "SET a 1", "EXEC")
    assert [argv[0] for _, argv in core.changes.effects] == [b"SET"]


def test_a_duplicate_has_no_effect():
    """An idempotent XADD that is a duplicate is not logged, because a replica may have dropped the record already."""
    for option in ("IDMP p i", "IDMPAUTO p"):
        assert effects_of(f"XADD s {option} * f v", f"XADD s {option} * f v") == [], option


def test_both_limits_of_idempotent_ids_are_logged():
    """XCFGSET with one limit is logged with both, because the defaults of a replica may differ."""
    assert effects_of("XADD s 1-1 f v", "XCFGSET s IDMP-MAXSIZE 7") == ["XCFGSET s IDMP-DURATION 100 IDMP-MAXSIZE 7"]
