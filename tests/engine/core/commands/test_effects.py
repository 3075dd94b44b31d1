"""Effects of commands on keys of any type are logged completely, as commands that do not depend on time or chance."""

from __future__ import annotations

from tests.harness.replay import NOW_US, check_replay, commands, new_core


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


def test_a_delivery_to_a_blocked_client_is_in_the_log_after_its_entry():
    """The log of an XADD that serves a blocked client gives the same group."""
    core = new_core()
    run(core, "XGROUP CREATE s g 0 MKSTREAM", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
    run(core, "XADD s 1-1 f v")
    assert len(core.databases[0].get(b"s").groups[b"g"].pending) == 1
    check_replay(core, NOW_US)


def test_a_duplicate_has_no_effect():
    """An idempotent XADD that is a duplicate is not logged, because a replica may have dropped the record already."""
    for option in ("IDMP p i", "IDMPAUTO p"):
        assert effects_of(f"XADD s {option} * f v", f"XADD s {option} * f v") == [], option


def test_both_limits_of_idempotent_ids_are_logged():
    """XCFGSET with one limit is logged with both, because the defaults of a replica may differ."""
    assert effects_of("XADD s 1-1 f v", "XCFGSET s IDMP-MAXSIZE 7") == ["XCFGSET s IDMP-DURATION 100 IDMP-MAXSIZE 7"]
