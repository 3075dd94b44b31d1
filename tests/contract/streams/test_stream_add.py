"""XADD and XLEN, and behaviour common to stream commands: arity, types, unknown arguments."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.replies import INVALID_ID, NOT_AN_INTEGER, OK, SYNTAX, WRONGTYPE, Error, entries


def wrong_arity(name: str) -> Error:
    return Error(f"ERR wrong number of arguments for '{name}' command")


WRONG_ARITY = [
    ("XADD s *", "xadd"),
    ("XADD s * f", "xadd"),
    ("XADD s MAXLEN 5", "xadd"),
    ("XTRIM s MAXLEN", "xtrim"),
    ("XDEL s", "xdel"),
    ("XLEN", "xlen"),
    ("XLEN s t", "xlen"),
    ("XRANGE s -", "xrange"),
    ("XREVRANGE s +", "xrevrange"),
    ("XREAD STREAMS s", "xread"),
    ("XREADGROUP GROUP g c STREAMS s", "xreadgroup"),
    ("XACK s g", "xack"),
    ("XPENDING s", "xpending"),
    ("XCLAIM s g c 0", "xclaim"),
    ("XAUTOCLAIM s g c 0", "xautoclaim"),
    ("XSETID s", "xsetid"),
    ("XINFO", "xinfo"),
    ("XINFO STREAM", "xinfo|stream"),
    ("XINFO GROUPS", "xinfo|groups"),
    ("XINFO GROUPS s g", "xinfo|groups"),
    ("XINFO CONSUMERS s", "xinfo|consumers"),
    ("XINFO CONSUMERS s g c", "xinfo|consumers"),
    ("XGROUP", "xgroup"),
    ("XGROUP CREATE s g", "xgroup|create"),
    ("XGROUP SETID s g", "xgroup|setid"),
    ("XGROUP DESTROY s", "xgroup|destroy"),
    ("XGROUP DESTROY s g c", "xgroup|destroy"),
    ("XGROUP CREATECONSUMER s g", "xgroup|createconsumer"),
    ("XGROUP DELCONSUMER s g", "xgroup|delconsumer"),
]


def test_arity(server: Server) -> None:
    """A command with too few or too many arguments returns an error with its own name."""
    for command, name in WRONG_ARITY:
        server.expect(command, wrong_arity(name))


def unknown(word: str, container: str) -> str:
    return f"ERR unknown subcommand '{word}'. Try {container} HELP."


def trailing(word: str, container: str) -> str:
    return f"ERR unknown subcommand or wrong number of arguments for '{word}'. Try {container} HELP."


def test_subcommands(server: Server) -> None:
    """Unknown subcommands and arguments are rejected with the given word in the error."""
    for command, reply in [
        ("XGROUP FOO s g", unknown("FOO", "XGROUP")),
        ("XGROUP foo", unknown("foo", "XGROUP")),
        ("XINFO FOO s", unknown("FOO", "XINFO")),
        ("XGROUP CREATE s g 0 WAT", trailing("CREATE", "XGROUP")),
        ("XGROUP setid s g 0 ENTRIESREAD", trailing("setid", "XGROUP")),
        ("XINFO STREAM s WAT", trailing("STREAM", "XINFO")),
        ("XINFO STREAM s FULL COUNT", trailing("STREAM", "XINFO")),
    ]:
        server.given("FLUSHALL")
        server.given("XADD s 1-1 f v", "XGROUP CREATE s g 0")
        server.expect_error(command, reply)


ON_A_STREAM = [
    "XADD k 1-1 f v",
    "XADD k NOMKSTREAM * f v",
    "XLEN k",
    "XRANGE k - +",
    "XREVRANGE k + -",
    "XDEL k 1-1",
    "XTRIM k MAXLEN 1",
    "XSETID k 1-1",
    "XREAD STREAMS k 0",
    "XREAD STREAMS s k 0 0",
    "XREADGROUP GROUP g c STREAMS k >",
    "XACK k g 1-1",
    "XPENDING k g",
    "XPENDING k g - + 10",
    "XCLAIM k g c 0 1-1",
    "XAUTOCLAIM k g c 0 0",
    "XGROUP CREATE k g $",
    "XGROUP CREATE k g $ MKSTREAM",
    "XGROUP SETID k g $",
    "XGROUP DESTROY k g",
    "XGROUP CREATECONSUMER k g c",
    "XGROUP DELCONSUMER k g c",
    "XINFO STREAM k",
    "XINFO STREAM k FULL",
    "XINFO GROUPS k",
    "XINFO CONSUMERS k g",
]


def test_wrong_type(server: Server) -> None:
    """A stream command on a key of another type is an error and changes nothing."""
    for command in ON_A_STREAM:
        server.given("SET k text")
        server.expect(command, WRONGTYPE)
        server.expect("GET k", "text")


# -- XADD -------------------------------------------------------------------------------------------------------------


def test_entries_keep_their_fields(server: Server) -> None:
    """Fields are returned in their order, including repeated and empty ones."""
    server.expect(("XADD", "s", "1-1", "b", "2", "a", "1", "b", "3", "", ""), "1-1")
    server.expect("XRANGE s - +", [["1-1", ["b", "2", "a", "1", "b", "3", "", ""]]])


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


def test_adding_creates_the_key(server: Server) -> None:
    """The first XADD makes a key of type stream."""
    server.given("XADD s 1-1 f v")
    server.expect("TYPE s", "stream")


def test_nomkstream(server: Server) -> None:
    """NOMKSTREAM on a missing key returns nil and creates no key; on a stream it has no effect."""
    assert server.wire("XADD s NOMKSTREAM 1-1 f v") == (b"_\r\n" if server.proto == 3 else b"$-1\r\n")
    server.expect("EXISTS s", 0)
    server.given("XADD s 1-1 f v")
    server.expect("XADD s nomkstream 1-2 f v", "1-2")


def test_an_empty_stream_stays(server: Server) -> None:
    """A stream without entries is still a key, with its last ID."""
    server.given("XADD s 1-1 f v", "XDEL s 1-1")
    server.expect("EXISTS s", 1)
    server.expect("XLEN s", 0)
    server.expect("XRANGE s - +", [])
    server.expect("XADD s 1-* f v", "1-2")


def test_length(server: Server) -> None:
    """XLEN counts live entries; a missing key has none."""
    server.expect("XLEN s", 0)
    server.given("XADD s 1-1 f v", "XADD s 1-2 f v", "XADD s 1-3 f v", "XDEL s 1-2")
    server.expect("XLEN s", 2)


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


def test_maxlen_zero_removes_the_new_entry_too(server: Server) -> None:
    """XADD returns the ID even if trimming removed the entry at once."""
    server.expect("XADD s MAXLEN 0 1-1 f v", "1-1")
    server.expect("XLEN s", 0)
    server.expect("XADD s MINID 9-0 2-1 f v", "2-1")
    server.expect("XLEN s", 0)


INCOMPATIBLE = Error("ERR syntax error, MAXLEN and MINID options at the same time are not compatible")
LIMIT_NEEDS_TILDE = Error("ERR syntax error, LIMIT cannot be used without the special ~ option")
LIMIT_NEEDS_STRATEGY = Error("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy")
NEGATIVE_MAXLEN = Error("ERR The MAXLEN argument must be >= 0.")
NEGATIVE_LIMIT = Error("ERR The LIMIT argument must be >= 0.")

OPTION_ERRORS = [
    ("XADD s MAXLEN 1 MINID 1 * f v", INCOMPATIBLE),
    ("XADD s MINID 1 MAXLEN 1 * f v", INCOMPATIBLE),
    ("XADD s MAXLEN 1 MAXLEN 1 * f v", INCOMPATIBLE),
    ("XADD s MINID 1 MINID 1 * f v", INCOMPATIBLE),
    ("XADD s MAXLEN -1 * f v", NEGATIVE_MAXLEN),
    ("XADD s MAXLEN ~ -1 * f v", NEGATIVE_MAXLEN),
    ("XADD s MAXLEN x * f v", NOT_AN_INTEGER),
    ("XADD s MAXLEN = x * f v", NOT_AN_INTEGER),
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
    ("XTRIM s MAXLEN 1 MINID 1", INCOMPATIBLE),
    ("XTRIM s MAXLEN 1 MAXLEN 1", INCOMPATIBLE),
    ("XTRIM s MAXLEN -1", NEGATIVE_MAXLEN),
    ("XTRIM s MAXLEN x", NOT_AN_INTEGER),
    ("XTRIM s MAXLEN ~ 1 LIMIT -5", NEGATIVE_LIMIT),
    ("XTRIM s MAXLEN 1 LIMIT 5", LIMIT_NEEDS_TILDE),
    ("XTRIM s MAXLEN 1 LIMIT 0", LIMIT_NEEDS_TILDE),
    ("XTRIM s MINID x", INVALID_ID),
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


def test_words_are_case_insensitive(server: Server) -> None:
    """Commands, subcommands and options may be written in any case."""
    server.expect("xAdd s MaxLen ~ 100 limit 10 1-1 f v", "1-1")
    server.expect("xgroup Create s g 0 EntriesRead 0", OK)
    server.expect("xtrim s minid 0", 0)
