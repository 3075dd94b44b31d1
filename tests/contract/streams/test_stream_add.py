"""XADD: fields and values, trim options and their errors, and approximate trims."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.replies import INVALID_ID, NOT_AN_INTEGER, SYNTAX, Error, entries


def wrong_arity(name: str) -> Error:
    return Error(f"ERR wrong number of arguments for '{name}' command")


def test_values_are_bytes(server: Server) -> None:
    """Any bytes can be a field or a value: line ends, zeros, invalid UTF-8, bytes that look like RESP."""
    values = [b"a\r\nb", b"\x00\xff", b"$3\r\nabc\r\n", b"*2\r\n", "grüße".encode()]
    words: list[bytes] = []
    for value in values:
        words += [value, value]
    server.run("XADD", "s", "1-1", *words)
    server.expect("XRANGE s - +", [["1-1", words]])


def test_a_long_value(server: Server) -> None:
    """A value of a megabyte is returned unchanged."""
    value = bytes(range(256)) * 4096
    server.run("XADD", "s", "1-1", "f", value)
    server.expect("XRANGE s - +", [["1-1", ["f", value]]])


def test_many_fields(server: Server) -> None:
    """An entry may have a thousand fields."""
    words = [str(n) for n in range(2000)]
    server.run("XADD", "s", "1-1", *words)
    server.expect("XRANGE s - +", [["1-1", words]])


def test_nomkstream(server: Server) -> None:
    """NOMKSTREAM on a missing key returns nil and creates no key; on a stream it has no effect."""
    assert server.wire("XADD s NOMKSTREAM 1-1 f v") == (b"_\r\n" if server.proto == 3 else b"$-1\r\n")
    server.expect("EXISTS s", 0)
    server.given("XADD s 1-1 f v")
    server.expect("XADD s nomkstream 1-2 f v", "1-2")


def test_adding_trims(server: Server) -> None:
    """MAXLEN and MINID of XADD trim after the entry is added, whatever the order of the options."""
    for command in [
        "XADD s MAXLEN 2 4-1 f v",
        "XADD s MAXLEN = 2 4-1 f v",
        "XADD s maxlen = 2 4-1 f v",
        "XADD s MINID 3-1 4-1 f v",
        "XADD s MINID = 3 4-1 f v",
        "XADD s NOMKSTREAM MAXLEN 2 4-1 f v",
        "XADD s MAXLEN 2 NOMKSTREAM 4-1 f v",
    ]:
        server.given("FLUSHALL")
        server.given("XADD s 1-1 f v", "XADD s 2-1 f v", "XADD s 3-1 f v")
        server.expect(command, "4-1")
        server.expect("XRANGE s - +", entries("3-1 f v", "4-1 f v"))


INCOMPATIBLE = Error("ERR syntax error, MAXLEN and MINID options at the same time are not compatible")
LIMIT_NEEDS_TILDE = Error("ERR syntax error, LIMIT cannot be used without the special ~ option")
LIMIT_NEEDS_STRATEGY = Error("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy")
NEGATIVE_MAXLEN = Error("ERR The MAXLEN argument must be >= 0.")
NEGATIVE_LIMIT = Error("ERR The LIMIT argument must be >= 0.")

OPTION_ERRORS = [
    ("XADD s MAXLEN 1 MINID 1 * f v", INCOMPATIBLE),
    ("XADD s MINID 1 MINID 1 * f v", INCOMPATIBLE),
    ("XADD s MAXLEN -1 * f v", NEGATIVE_MAXLEN),
    ("XADD s MAXLEN x * f v", NOT_AN_INTEGER),
    ("XADD s MAXLEN 99999999999999999999 * f v", NOT_AN_INTEGER),
    ("XADD s MINID x * f v", INVALID_ID),
    ("XADD s MINID ~ * f v", INVALID_ID),
    ("XADD s MAXLEN ~ 1 LIMIT -1 * f v", NEGATIVE_LIMIT),
    ("XADD s MAXLEN ~ 1 LIMIT x * f v", NOT_AN_INTEGER),
    ("XADD s MAXLEN 1 LIMIT 1 * f v", LIMIT_NEEDS_TILDE),
    ("XADD s MAXLEN = 1 LIMIT 1 * f v", LIMIT_NEEDS_TILDE),
    ("XADD s MAXLEN = 1 LIMIT 0 * f v", LIMIT_NEEDS_TILDE),
    ("XADD s LIMIT 1 * f v", LIMIT_NEEDS_STRATEGY),
    ("XADD s LIMIT 0 * f v", LIMIT_NEEDS_TILDE),
    ("XADD s MAXLN 1 * f v", INVALID_ID),
    ("XADD s NOMKSTREM * f v", INVALID_ID),
    ("XADD s 1-1 f v LIMIT", wrong_arity("xadd")),
    ("XADD s x f v g", INVALID_ID),
    ("XADD s 0-0 f v g", wrong_arity("xadd")),
    ("XTRIM s WAT 1", SYNTAX),
    ("XTRIM s MAXLEN 1 WAT", SYNTAX),
    ("XTRIM s MAXLEN 1 LIMIT", SYNTAX),
    ("XTRIM s LIMIT 5", LIMIT_NEEDS_STRATEGY),
    ("XTRIM s LIMIT 0", Error("ERR syntax error, XTRIM must be called with a trimming strategy")),
    ("XTRIM s MAXLEN ~", NOT_AN_INTEGER),
]


@pytest.mark.parametrize("exists", [False, True])
def test_trim_options(server: Server, exists: bool) -> None:
    """Errors in the options have Redis's texts and order, with and without the key, and change nothing."""
    if exists:
        server.given("XADD s 1-1 f v")
    for command, reply in OPTION_ERRORS:
        server.expect(command, reply)
        server.expect("XLEN s", int(exists))


def test_errors_before_the_type(server: Server) -> None:
    """Options, field count and zero ID are checked before the key is read."""
    server.given("SET k v")
    server.expect("XADD k MAXLEN x 1-1 f v", NOT_AN_INTEGER)
    server.expect("XADD k 0-0 f v", Error("ERR The ID specified in XADD must be greater than 0-0"))
    server.expect("XADD k 1-1 f v g", wrong_arity("xadd"))
    server.expect("XTRIM k MAXLEN x", NOT_AN_INTEGER)


@pytest.mark.parametrize(
    ("options", "needed"), [("MAXLEN ~ 55", 55), ("MAXLEN ~ 0", 0), ("MINID ~ 201", 50), ("MINID ~ 90 LIMIT 3", 161)]
)
def test_approximate_trimming_keeps_enough(server: Server, options: str, needed: int) -> None:
    """``~`` never removes an entry that an exact trim keeps, whatever the size of the server's nodes."""
    server.given("MULTI", *(f"XADD s {number}-0 f v" for number in range(1, 251)), "EXEC")
    removed = server.run(f"XTRIM s {options}")
    server.expect("XRANGE s - +", entries(*(f"{number}-0 f v" for number in range(removed + 1, 251))))
    assert 250 - removed >= needed
