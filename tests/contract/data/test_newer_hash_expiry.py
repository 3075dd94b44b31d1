"""Expiring hash fields: HEXPIRE and its variants (7.4), HGETEX, HSETEX and HGETDEL (8.0)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.contract.transcripts import play
from tests.harness.kinds import Server
from tests.harness.marks import hand_clock, since
from tests.harness.replies import ANY, NOT_AN_INTEGER, OK, WRONGTYPE, AnyOrder, Between, Error

pytestmark = since("8.0")

#: Deadlines in milliseconds since the epoch: the latest full second, and the latest that Redis accepts (2^46 - 1).
_LATER, _LATEST = 70_368_744_177_000, 70_368_744_177_663


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("HSET h a 1 b 2 c 3", 3),
            ("HEXPIRE h 100 FIELDS 2 a x", [1, -2]),
            ("HTTL h FIELDS 3 a b x", [Between(99, 100), -1, -2]),
            ("HPTTL h FIELDS 1 a", [Between(90_000, 100_000)]),
            ("HPEXPIREAT h 70368744177663 FIELDS 1 b", [1]),
            ("HPEXPIRETIME h FIELDS 2 b c", [_LATEST, -1]),
            ("HEXPIREAT h 70368744177 FIELDS 1 b", [1]),
            ("HEXPIRETIME h FIELDS 1 b", [_LATER // 1000]),
            ("HPERSIST h FIELDS 3 a c x", [1, -1, -2]),
            ("HPERSIST h FIELDS 2 b b", [1, -1]),
            ("HTTL h FIELDS 2 a b", [-1, -1]),
            ("HTTL none FIELDS 1 a", [-2]),
            ("HEXPIRE none 10 FIELDS 2 a b", [-2, -2]),
            ("HPERSIST none FIELDS 1 a", [-2]),
        ],
        [
            ("HSET h a 1 b 2 c 3 d 4", 4),
            ("HEXPIRE h 100 NX FIELDS 1 a", [1]),
            ("HEXPIRE h 200 NX FIELDS 1 a", [0]),
            ("HEXPIRE h 200 XX FIELDS 2 a b", [1, 0]),
            ("HEXPIRE h 100 GT FIELDS 2 a b", [0, 0]),
            ("HEXPIRE h 300 gt FIELDS 1 a", [1]),
            ("HEXPIRE h 400 LT FIELDS 2 a b", [0, 1]),
            ("HEXPIRE h 0 LT FIELDS 3 a a c", [2, -2, 2]),
            ("HKEYS h", AnyOrder(["b", "d"])),
            ("HEXPIREAT h 1 FIELDS 2 b d", [2, 2]),
            ("EXISTS h", 0),
        ],
        [
            ("HSET h a 1 b 2", 2),
            ("HEXPIRE h 100 FIELDS 2 a b", [1, 1]),
            ("HSET h a 3", 0),
            ("HINCRBY h b 1", 3),
            ("HINCRBYFLOAT h b 0.5", "3.5"),
            ("HTTL h FIELDS 2 a b", [-1, Between(99, 100)]),
            ("OBJECT ENCODING h", "listpackex"),
            ("COPY h c", 1),
            ("RENAME c d", OK),
            ("MOVE d 1", 1),
            ("SELECT 1", OK),
            ("HTTL d FIELDS 2 a b", [-1, Between(99, 100)]),
            ("DEL d", 1),
            ("SELECT 0", OK),
            ("HDEL h b", 1),
            ("HSET h b 1", 1),
            ("HTTL h FIELDS 1 b", [-1]),
        ],
    ],
)
def test_deadlines(server: Server, dialogue) -> None:
    """Fields get and lose deadlines one by one; a past time deletes the field, and the hash with its last field."""
    play(server, dialogue)


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("HSET h a 1 b 2 c 3", 3),
            ("HGETEX h EX 100 FIELDS 2 a x", ["1", None]),
            ("HGETEX h FIELDS 1 b", ["2"]),
            ("HTTL h FIELDS 2 a b", [Between(99, 100), -1]),
            ("HGETEX h FIELDS 2 a b PERSIST", ["1", "2"]),
            ("HTTL h FIELDS 1 a", [-1]),
            ("HGETEX h PXAT 1 FIELDS 3 b a a", ["2", "1", None]),
            ("HGETEX h FIELDS 2 c c", ["3", "3"]),
            ("HSET h b 2", 1),
            ("HGETEX none FIELDS 2 a b", [None, None]),
            ("HGETDEL h FIELDS 2 b b", ["2", None]),
            ("HGETDEL h FIELDS 2 x c", [None, "3"]),
            ("EXISTS h", 0),
            ("HGETDEL h FIELDS 1 a", [None]),
        ],
        [
            ("HSETEX h FIELDS 2 a 1 b 2", 1),
            ("HSETEX h EX 100 FIELDS 1 a 5", 1),
            ("HSETEX h KEEPTTL FIELDS 1 a 6", 1),
            ("HTTL h FIELDS 2 a b", [Between(99, 100), -1]),
            ("HSETEX h FIELDS 1 a 7", 1),
            ("HTTL h FIELDS 1 a", [-1]),
            ("HSETEX h FNX FIELDS 2 a 1 z 2", 0),
            ("HSETEX h FXX FIELDS 2 a 1 z 2", 0),
            ("HSETEX h FXX PX 100000 FIELDS 2 a 8 b 9", 1),
            ("HMGET h a b z", ["8", "9", None]),
            ("HSETEX h PXAT 1 FIELDS 2 a 1 b 1", 1),
            ("EXISTS h", 0),
            ("HSETEX h FXX FIELDS 1 a 1", 0),
            ("EXISTS h", 0),
        ],
    ],
)
def test_reading_and_setting_with_expiry(server: Server, dialogue) -> None:
    """HGETEX, HSETEX and HGETDEL read or set fields and change their deadlines or delete them."""
    play(server, dialogue)


_NUM_FIELDS = Error("ERR Parameter `numFields` should be greater than 0")
_INVALID = Error("ERR invalid number of fields")
_POSITIVE = Error("ERR Number of fields must be a positive integer")
_MATCH = Error("ERR The `numfields` parameter must match the number of arguments")
_MANDATORY = Error("ERR Mandatory argument FIELDS is missing or not at the right position")
_NEGATIVE = Error("ERR invalid expire time, must be >= 0")


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("HEXPIRE h -1 FIELDS 1 a", _NEGATIVE),
        ("HEXPIRE h x FIELDS 1 a", NOT_AN_INTEGER),
        ("HEXPIRE h 99999999999999999 FIELDS 1 a", Error("ERR invalid expire time in 'hexpire' command")),
        ("HPEXPIREAT h 70368744177664 FIELDS 1 a", Error("ERR invalid expire time in 'hpexpireat' command")),
        ("HEXPIRE h 10 FIELDS 0 a", _NUM_FIELDS),
        ("HEXPIRE h 10 FIELDS x a", _NUM_FIELDS),
        ("HEXPIRE h 10 FIELDS 2 a", Error("ERR wrong number of arguments")),
        ("HEXPIRE h 10 FIELDS 1 a b", Error("ERR unknown argument: b")),
        ("HEXPIRE h 10 NX XX FIELDS 1 a", Error("ERR Multiple condition flags specified")),
        ("HEXPIRE h 10 NX XX FIELDS 1", Error("ERR FIELDS requires at least numfields and one field argument")),
        ("HEXPIRE h 10 FIELDS 1 a FIELDS 1 b", Error("ERR FIELDS keyword specified multiple times")),
        ("HEXPIRE s x FIELDS 1 a", WRONGTYPE),
        ("HTTL h FIELDS 1 a b", _MATCH),
        ("HTTL h FIELDS 0 a", _POSITIVE),
        ("HTTL h FOO 1 a", _MANDATORY),
        ("HTTL s FIELDS 1 a", WRONGTYPE),
        ("HPERSIST h FIELDS 2 a", _MATCH),
        ("HGETDEL h FIELDS x a", _POSITIVE),
        ("HGETDEL s FIELDS 1 a", WRONGTYPE),
        ("HGETEX h FIELDS 0 a", _INVALID),
        ("HGETEX h EX -1 FIELDS 1 a", _NEGATIVE),
        ("HGETEX h FOO FIELDS 1 a", Error("ERR unknown argument: FOO")),
        ("HGETEX h KEEPTTL FIELDS 1 a", Error("ERR unknown argument")),
        (
            "HGETEX h EX 10 PX 10 FIELDS 1 a",
            Error("ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified"),
        ),
        ("HGETEX h EX 10 FIELDS", Error("ERR wrong number of arguments for 'hgetex' command")),
        ("HGETEX h FIELDS 1 a PX", Error("ERR missing expire time")),
        ("HSETEX h EX 10 FXX FIELDS", Error("ERR wrong number of arguments for 'hsetex' command")),
        ("HSETEX h FIELDS 1 a 1 EXAT", Error("ERR missing expire time")),
        ("HSETEX h FIELDS 2 a 1 b", Error("ERR wrong number of arguments")),
        ("HSETEX h FNX FXX FIELDS 1 a 1", Error("ERR Only one of FXX or FNX arguments can be specified")),
        ("HSETEX s FIELDS 1 a 1", WRONGTYPE),
        ("HSETEX s FIELDS 1 a", Error("ERR wrong number of arguments for 'hsetex' command")),
    ],
)
def test_errors(server: Server, command: str, error: Any) -> None:
    """An invalid command returns Redis's error and sets no deadline."""
    server.given("SET s 1", "HSET h a 1")
    server.expect(command, error)
    server.expect("HTTL h FIELDS 1 a", [-1])


@hand_clock
@pytest.mark.parametrize("fields", [3, 300])
def test_fields_expire(server: Server, fields: int) -> None:
    """Expired fields are not visible and are deleted; the hash is deleted with its last field."""
    names = [f"f{number}" for number in range(fields)]
    server.run("HSET", "h", *[word for name in names for word in (name, "v")])
    server.run("HPEXPIRE", "h", 10, "FIELDS", fields - 1, *names[1:])
    server.run("HPEXPIRE", "h", 30, "FIELDS", 1, "f0")
    server.clock.now_us += 10_000
    # The fields still exist, because no command has accessed them.
    play(
        server,
        [
            ("HGET h f1", None),
            ("HMGET h f0 f1", ["v", None]),
            ("HEXISTS h f1", 0),
            ("HSTRLEN h f1", 0),
            ("HKEYS h", ["f0"]),
            ("HVALS h", ["v"]),
            ("HRANDFIELD h", "f0"),
            ("HRANDFIELD h 5", ["f0"]),
            ("HSCAN h 0 COUNT 1000", ["0", ["f0", "v"]]),
            ("HTTL h FIELDS 2 f1 f0", [-2, 1]),
            ("SORT h", WRONGTYPE),
            ("HINCRBY h f1 5", 5),
            ("HSETNX h f2 new", 1),
            ("HTTL h FIELDS 2 f1 f2", [-1, -1]),
            ("HDEL h f1 f2", 2),
        ],
    )
    server.let_pass(1)
    server.expect("HLEN h", 1)
    server.let_pass(25)
    server.expect("EXISTS h", 0)


@hand_clock
def test_expiring_fields_publish_events(server: Server) -> None:
    """An expired field publishes hexpired and is logged as an HDEL; the last field of a hash also publishes del.

    Setting and removing a deadline publish events as well.
    """
    server.config("notify-keyspace-events", "EA")
    client = server.client()
    client.run("PSUBSCRIBE __keyevent@*")
    server.given(
        "HSET h a 1 b 2 c 3",
        "HPEXPIRE h 10 FIELDS 2 a b",
        "HPERSIST h FIELDS 1 b",
        "HGETEX h PXAT 1 FIELDS 1 c",
        "HSETEX h PX 20 FIELDS 1 b 1",
    )
    server.let_pass(15)
    server.let_pass(10)
    events = ["hset", "hexpire", "hpersist", "hdel", "hset", "hexpire", "hexpired", "hexpired", "del"]
    for event in events:
        client.expect_reply(["pmessage", "__keyevent@*", f"__keyevent@0__:{event}", ANY])
    client.expect_nothing()
    assert [argv for _, argv in server.effects][-2:] == [[b"HDEL", b"h", b"a"], [b"HDEL", b"h", b"b"]]


def test_a_deadline_is_a_change_for_watch(server: Server) -> None:
    """Setting the deadline of a field fails a transaction that watches the key."""
    server.given("HSET h a 1", "WATCH h", "HEXPIRE h 100 FIELDS 1 a", "MULTI", "PING")
    server.expect("EXEC", None)
    server.given("WATCH h", "HPERSIST h FIELDS 1 x", "MULTI", "PING")
    server.expect("EXEC", ["PONG"])


def expired_counts(server: Server) -> tuple[int, int]:
    """Return the numbers of expired keys and fields in INFO."""
    text = server.run("INFO stats").decode()
    keys, fields = (re.search(rf"^{name}:(\d+)", text, re.MULTILINE) for name in ("expired_keys", "expired_subkeys"))
    assert keys is not None
    assert fields is not None
    return int(keys[1]), int(fields[1])


@since("8.6")
@pytest.mark.parametrize(
    ("command", "fields"),
    [
        ("HEXPIRE h 0 FIELDS 2 a none", 1),
        ("HPEXPIREAT h 1 FIELDS 2 a b", 2),
        ("HGETEX h PXAT 1 FIELDS 1 a", 1),
        ("HSETEX h PXAT 1 FIELDS 1 a 2", 1),
    ],
)
def test_fields_given_a_past_time_count_as_expired(server: Server, command: str, fields: int) -> None:
    """A field that is removed because its new time has passed counts as expired, until CONFIG RESETSTAT."""
    server.given("HSET h a 1 b 2", "CONFIG RESETSTAT", command)
    assert expired_counts(server) == (0, fields)
    server.given("CONFIG RESETSTAT")
    assert expired_counts(server) == (0, 0)


@since("8.6")
def test_a_key_restored_with_a_past_time_counts_as_expired(server: Server) -> None:
    """RESTORE with a time in the past counts an expired key, whether or not it replaces a key."""
    server.given("SET k v")
    payload = server.run("DUMP", "k")
    server.given("CONFIG RESETSTAT")
    server.expect(("RESTORE", "gone", "1", payload, "ABSTTL"), OK)
    server.expect(("RESTORE", "k", "1", payload, "ABSTTL", "REPLACE"), OK)
    server.expect("DBSIZE", 0)
    assert expired_counts(server) == (2, 0)
