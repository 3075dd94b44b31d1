"""Idempotent adds (8.6): XADD IDMP and IDMPAUTO, XCFGSET, XIDMPRECORD."""

from __future__ import annotations

from typing import Any

from tests.harness.kinds import Server
from tests.harness.marks import hand_clock, since
from tests.harness.replies import INVALID_ID, OK, WRONGTYPE, Error

pytestmark = since("8.6")


def info(server: Server) -> dict[bytes, Any]:
    """Return the fields of XINFO STREAM about idempotence."""
    reply = server.run("XINFO STREAM s")
    fields = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
    names = (b"idmp-duration", b"idmp-maxsize", b"pids-tracked", b"iids-tracked", b"iids-added", b"iids-duplicates")
    return {name: fields[name] for name in names}


def counts(server: Server) -> tuple[int, int, int, int]:
    """Return the numbers of producers, of idempotent IDs (remembered, and ever added) and of duplicates."""
    _, _, producers, tracked, added, duplicates = info(server).values()
    return producers, tracked, added, duplicates


def test_a_duplicate_is_not_added(server: Server) -> None:
    """A repeated idempotent ID of a producer returns the first entry's ID, and nothing is added."""
    first = server.run("XADD s IDMP p 1 * f v")
    assert server.run("XADD s IDMP p 1 * f other") == first
    server.expect("XLEN s", 1)
    second = server.run("XADD s IDMP p 2 * f v")
    assert second != first
    assert server.run("XADD s IDMP q 1 * f v") not in (first, second)
    assert counts(server) == (2, 3, 3, 1)


def test_automatic_idempotent_ids(server: Server) -> None:
    """IDMPAUTO computes the idempotent ID from the fields, regardless of their order."""
    first = server.run("XADD s IDMPAUTO p * a 1 b 2")
    assert server.run("XADD s IDMPAUTO p * a 1 b 2") == first
    assert server.run("XADD s IDMPAUTO p * b 2 a 1") == first
    assert server.run("XADD s IDMPAUTO p * a 1 b 3") != first
    assert server.run("XADD s IDMPAUTO q * a 1 b 2") != first
    server.expect("XLEN s", 3)


def test_field_boundaries_matter(server: Server) -> None:
    """Entries with the same bytes have different idempotent IDs if their field names end at different bytes."""
    first = server.run("XADD s IDMPAUTO p * ab c")
    assert server.run("XADD s IDMPAUTO p * a bc") != first


def test_a_deleted_entry_is_remembered(server: Server) -> None:
    """A duplicate returns the ID of its entry even if the entry has been deleted."""
    first = server.run("XADD s IDMP p 1 * f v").decode()
    server.given(f"XDEL s {first}")
    server.expect("XADD s IDMP p 1 * f v", first)
    server.expect("XLEN s", 0)


def test_a_duplicate_does_nothing_else(server: Server) -> None:
    """A duplicate neither trims nor wakes clients."""
    server.given("XADD s IDMP p 1 * f v", "XADD s 99999999999999-0 f v")
    reader = server.client()
    reader.send("XREAD BLOCK 0 STREAMS s $")
    reader.expect_blocked()
    server.given("XADD s IDMP p 1 MAXLEN 0 * f v")
    reader.expect_blocked()
    server.expect("XLEN s", 2)


def test_nomkstream(server: Server) -> None:
    """NOMKSTREAM on a missing key records nothing."""
    server.expect("XADD s NOMKSTREAM IDMP p 1 * f v", None)
    server.expect("EXISTS s", 0)
    server.given("XADD s IDMP p 1 * f v")
    assert counts(server) == (1, 1, 1, 0)


def test_add_errors(server: Server) -> None:
    """Idempotence needs one producer, one idempotent ID and an automatic entry ID."""
    for words, reply in [
        (["IDMP", "p", "1", "IDMP", "p", "1", "*"], "ERR syntax error, IDMP/IDMPAUTO specified multiple times"),
        (["IDMPAUTO", "p", "IDMP", "p", "1", "*"], "ERR syntax error, IDMP/IDMPAUTO specified multiple times"),
        (["IDMPAUTO", "", "*"], "ERR syntax error, IDMPAUTO requires a non-empty producer ID"),
        (["IDMP", "", "1", "*"], "ERR syntax error, IDMP requires a non-empty producer ID"),
        (["IDMP", "p", "", "*"], "ERR syntax error, IDMP requires a non-empty idempotent ID"),
        (["IDMP", "p", "1", "1-1"], "ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"),
        (
            ["IDMP", "p", "1", "LIMIT", "5", "1-1"],
            "ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs",
        ),
        (["IDMP", "p", "1", "1-*"], "ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"),
        (["IDMPAUTO", "p", "1-1"], "ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"),
    ]:
        server.given("FLUSHALL")
        server.expect(("XADD", "s", *words, "f", "v"), Error(reply))
        server.expect("EXISTS s", 0)


def test_options_in_any_order(server: Server) -> None:
    """IDMP is accepted anywhere among XADD's options."""
    first = server.run("XADD s MAXLEN 5 idmp p 1 KEEPREF * f v")
    assert server.run("XADD s KEEPREF IDMP p 1 MAXLEN 5 * f v") == first


def test_a_producer_keeps_its_newest_ids(server: Server) -> None:
    """A producer with more idempotent IDs than IDMP-MAXSIZE drops the oldest."""
    server.given("XADD s IDMP p 0 * f v", "XCFGSET s IDMP-MAXSIZE 2")
    made = [server.run(f"XADD s IDMP p {n} * f v") for n in range(1, 4)]
    assert counts(server)[:2] == (1, 2)
    assert server.run("XADD s IDMP p 3 * f v") == made[2]
    assert server.run("XADD s IDMP p 2 * f v") == made[1]
    assert server.run("XADD s IDMP p 1 * f v") != made[0]


@hand_clock
def test_ids_expire_after_their_duration(server: Server) -> None:
    """After the duration idempotent IDs are dropped, and then producers without any ID."""
    server.given("XADD s 1-1 f v", "XCFGSET s IDMP-DURATION 5", "XADD s IDMP p 1 * f v")
    assert counts(server)[:2] == (1, 1)
    server.let_pass(3000)
    server.given("XADD s IDMP p 2 * f v")
    server.let_pass(3000)
    assert counts(server)[:2] == (1, 1)
    server.let_pass(60000)
    assert counts(server)[:2] == (0, 0)
    assert counts(server)[2:] == (2, 0)


# -- XCFGSET ----------------------------------------------------------------------------------------------------------


def test_settings_of_a_stream(server: Server) -> None:
    """XCFGSET sets a stream's IDMP-DURATION and IDMP-MAXSIZE, whose defaults are 100."""
    server.given("XADD s 1-1 f v")
    assert list(info(server).values()) == [100, 100, 0, 0, 0, 0]
    server.expect("XCFGSET s IDMP-DURATION 86400 IDMP-MAXSIZE 10000", OK)
    assert list(info(server).values())[:2] == [86400, 10000]
    server.expect("xcfgset s idmp-maxsize 1", OK)
    assert list(info(server).values())[:2] == [86400, 1]


def test_a_changed_setting_drops_all_producers(server: Server) -> None:
    """A changed value drops all producers; an equal value changes nothing. Counters stay."""
    first = server.run("XADD s IDMP p 1 * f v")
    server.expect("XCFGSET s IDMP-DURATION 100 IDMP-MAXSIZE 100", OK)
    assert server.run("XADD s IDMP p 1 * f v") == first
    assert counts(server) == (1, 1, 1, 1)
    server.expect("XCFGSET s IDMP-DURATION 101", OK)
    assert counts(server) == (0, 0, 1, 1)
    assert server.run("XADD s IDMP p 1 * f v") != first


def test_settings_errors(server: Server) -> None:
    """After an error of XCFGSET nothing has changed."""
    for words, reply in [
        ("", "ERR At least one parameter must be specified"),
        ("IDMP-DURATION 0", "ERR IDMP-DURATION must be between 1 and 86400 seconds"),
        ("IDMP-DURATION nan", "ERR value is not an integer or out of range"),
        ("IDMP-MAXSIZE 1.5", "ERR value is not an integer or out of range"),
        ("IDMP-DURATION 86401", "ERR IDMP-DURATION must be between 1 and 86400 seconds"),
        ("IDMP-MAXSIZE 0", "ERR IDMP-MAXSIZE must be between 1 and 10000 entries"),
        ("IDMP-MAXSIZE 10001", "ERR IDMP-MAXSIZE must be between 1 and 10000 entries"),
        ("IDMP-DURATION 5 IDMP-DURATION 5", "ERR IDMP-DURATION specified multiple times"),
        ("IDMP-MAXSIZE 5 IDMP-MAXSIZE 5", "ERR IDMP-MAXSIZE specified multiple times"),
        ("WAT 5", "ERR syntax error"),
    ]:
        server.given("FLUSHALL")
        server.given("XADD s 1-1 f v")
        server.expect_error(f"XCFGSET s {words}".strip(), reply)
        assert list(info(server).values())[:2] == [100, 100]


def test_settings_need_a_stream(server: Server) -> None:
    """XCFGSET checks the key before its options."""
    server.expect("XCFGSET s WAT 5", Error("ERR no such key"))
    server.given("SET k v")
    server.expect("XCFGSET k WAT 5", WRONGTYPE)
    server.expect("XCFGSET", Error("ERR wrong number of arguments for 'xcfgset' command"))


# -- XIDMPRECORD ------------------------------------------------------------------------------------------------------


#: IDs in the future, so that their records do not expire during a test.
FIRST, SECOND = "99999999999991-1", "99999999999992-1"


def test_recording(server: Server) -> None:
    """XIDMPRECORD records an idempotent ID for an existing entry."""
    server.given(f"XADD s {FIRST} f v", f"XADD s {SECOND} f v")
    server.expect(f"XIDMPRECORD s p 1 {FIRST}", OK)
    server.expect(f"XIDMPRECORD s p 1 {FIRST}", OK)
    server.expect("XADD s IDMP p 1 * f v", FIRST)
    assert counts(server) == (1, 1, 1, 1)


def test_recording_errors(server: Server) -> None:
    """XIDMPRECORD checks its arguments in Redis's order."""
    for words, reply in [
        (("s", "p", "1", "x"), INVALID_ID),
        (("s", "", "1", FIRST), Error("ERR producer ID must be non-empty")),
        (("s", "p", "", FIRST), Error("ERR idempotent ID must be non-empty")),
        (("none", "p", "1", "1-1"), Error("ERR no such key")),
        (("none", "p", "1", "x"), INVALID_ID),
        (("k", "p", "1", "1-1"), WRONGTYPE),
        (("s", "p", "1", "9-9"), Error("ERR No such message in stream")),
        (("s", "p", "taken", SECOND), Error("ERR IID already exists for this producer with a different stream ID")),
    ]:
        server.given("FLUSHALL")
        server.given(f"XADD s {FIRST} f v", f"XADD s {SECOND} f v", f"XIDMPRECORD s p taken {FIRST}", "SET k v")
        server.expect(("XIDMPRECORD", *words), reply)


def test_recording_syntax(server: Server) -> None:
    """XIDMPRECORD takes exactly four arguments."""
    server.expect("XIDMPRECORD s p 1", Error("ERR wrong number of arguments for 'xidmprecord' command"))
