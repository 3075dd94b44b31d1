"""Parsing of valid and invalid requests, in pieces of any size, with and without the fast path."""

from __future__ import annotations

import os
import random
import time
import tracemalloc
from collections.abc import Iterable

import pytest

from engine.wire.parser import LINE_LIMIT, RequestParser
from tests.engine.wire import fuzz

PING = b"*1\r\n$4\r\nPING\r\n"
PREFIX = b"ERR Protocol error: "


def written(*argv: bytes) -> bytes:
    return fuzz.written(list(argv))


def parse(pieces: Iterable[bytes], quick: bool = True, trusted: bool = True) -> tuple[list[list[bytes]], bytes | None]:
    """Return commands and error of a parser that is fed ``pieces``; ``quick=False`` uses the reference parser alone."""
    parser = (RequestParser if quick else fuzz.Scalar)(1 << 20)
    parser.trusted = trusted
    return fuzz.parse(parser, list(pieces))


#: Bytes, the commands in them, and the error at their end as in redis-server 7.0.
CASES: list[tuple[bytes, list[list[bytes]], bytes | None]] = [
    (PING, [[b"PING"]], None),
    (PING * 3, [[b"PING"]] * 3, None),
    (b"*1\r\nx", [], None),
    (b"*1\r\n:4\r\n", [], b"expected '$', got ':'"),
    (b"*2\r\n$4\r\nPING\r\n+a\r\n", [], b"expected '$', got '+'"),
    (b"*2\r\n$4\r\nPINGXX+a\r\n", [], b"expected '$', got '+'"),
    (b"*2\r\n$4\r\nPING\r\n=5\r\ntxt:a\r\n", [], b"expected '$', got '='"),
    (b"*2\r\n$4\r\nPING\r\n(5\r\n", [], b"expected '$', got '('"),
    (b"*2\r\n$4\r\nPING\r\n+a+b\r\n", [], b"expected '$', got '+'"),
    (b"*2\r\n$4\r\nPINGXX+\r\n", [], b"expected '$', got '+'"),
    (b"*2\r\n$4\r\nPINGXX=5\r\ntxt:a\r\n", [], b"expected '$', got '='"),
    (b"*2\r\n$4\r\nPINGXX(-\r\n", [], b"expected '$', got '('"),
    (b"*2\r\n$4\r\nPINGXX(\r\n", [], b"expected '$', got '('"),
    (b"*1\r\n*1\r\n$4\r\nPING\r\n", [], b"expected '$', got '*'"),
    (b"*1\r\n~1\r\n$4\r\nPING\r\n", [], b"expected '$', got '~'"),
    (b"*1\r\n\r\n$4\r\nPING\r\n", [], b"expected '$', got '\r'"),
    (b"*1\r\n\r\n", [], b"expected '$', got '\r'"),
    (b"*x\r\n", [], b"invalid multibulk length"),
    (b"*\r\n", [], b"invalid multibulk length"),
    (b"*01\r\n$4\r\nPING\r\n", [], b"invalid multibulk length"),
    (b"*+1\r\n$4\r\nPING\r\n", [], b"invalid multibulk length"),
    (b"* 1\r\n$4\r\nPING\r\n", [], b"invalid multibulk length"),
    (b"*1\n$4\r\nPING\r\n", [], b"invalid multibulk length"),
    (b"*-0\r\nPING\r\n", [], b"invalid multibulk length"),
    (b"*2147483648\r\n", [], b"invalid multibulk length"),
    (b"*99999999999999999999\r\n", [], b"invalid multibulk length"),
    (b"*1048577\r\n", [], None),
    (b"*-1\r\nPING\r\n", [[b"PING"]], None),
    (b"*0\r\nPING\r\n", [[b"PING"]], None),
    (b"*-10\r\n" + PING, [[b"PING"]], None),
    (PING + b"*0\r\n" + PING, [[b"PING"]] * 2, None),
    (b"*1\r\n$-1\r\n", [], b"invalid bulk length"),
    (b"*1\r\n$x\r\n", [], b"invalid bulk length"),
    (b"*1\r\n$04\r\nPING\r\n", [], b"invalid bulk length"),
    (b"*1\r\n$ 4\r\nPING\r\n", [], b"invalid bulk length"),
    (b"*1\r\n$1048577\r\n", [], b"invalid bulk length"),
    (b"*1\r\n$1048576\r\n", [], None),
    (b"*1\r\n$4\r\nPINGxx" + PING, [[b"PING"]] * 2, None),
    (b"*1\rx$4\ryPING\r\n", [[b"PING"]], None),
    (b"*1\r\n$0\r\n\r\n", [[b""]], None),
    (b"*2\r\n$4\r\nPING\r\n$6\r\n\r\n*1\r\n\r\n", [[b"PING", b"\r\n*1\r\n"]], None),
    (b"*" + b"1" * 70000, [], b"too big mbulk count string"),
    (b"*1\r\n$" + b"1" * 70000, [], b"too big bulk count string"),
    (b"*1\r\n" + b"a" * 70000, [], b"too big bulk count string"),
    (b"a" * 70000, [], b"too big inline request"),
    (b"a" * LINE_LIMIT + b"\n", [[b"a" * LINE_LIMIT]], None),
    (PING + b"*1\r\nzPING\r\n" + PING, [[b"PING"]], b"expected '$', got 'z'"),
    (b"PING\r\n" + PING + b"PING\n", [[b"PING"]] * 3, None),
    (b"\r\n\r\n\nPING\r\n", [[b"PING"]], None),
    (b" PING \t a\r\n", [[b"PING", b"a"]], None),
    (b"PING\rPING\n", [[b"PING", b"PING"]], None),
    (b"\t PING\x0b\x0c\r\n", [[b"PING\x0b\x0c"]], None),
    (b'PING "a\r\n', [], b"unbalanced quotes in request"),
    (b"PING 'a'b\r\n", [], b"unbalanced quotes in request"),
    (b'PING "a""b"\r\n', [], b"unbalanced quotes in request"),
    (b'PING "\\\r\n', [], b"unbalanced quotes in request"),
    (b'PING "\\x41\\n\\q\\"\\xZZ"\r\n', [[b"PING", b'A\nq"xZZ']], None),
    (b"PING 'a\\'b\\n'\r\n", [[b"PING", b"a'b\\n"]], None),
    (b'PING a"b c"\r\n', [[b"PING", b"ab c"]], None),
    (b'""\r\n', [[b""]], None),
    (b"$4\r\nPING\r\n", [[b"$4"], [b"PING"]], None),
    (b"+PING\r\n", [[b"+PING"]], None),
    (b">1\r\n$1\r\n", [[b">1"], [b"$1"]], None),
    (PING + b"$0\r\n\r\n", [[b"PING"], [b"$0"]], None),
    (PING + b"#f\r\n", [[b"PING"], [b"#f"]], None),
    (PING + b"~1\r\n$1\r\na\r\n", [[b"PING"], [b"~1"], [b"$1"], [b"a"]], None),
    (PING + b"%1\r\n$1\r\na\r\n$1\r\nb\r\n", [[b"PING"], [b"%1"], [b"$1"], [b"a"], [b"$1"], [b"b"]], None),
    (written(b"XRANGE", b"s", b"-", b"+", b"=", b"(1-1"), [[b"XRANGE", b"s", b"-", b"+", b"=", b"(1-1"]], None),
    (written(*[b"x"] * 20000), [[b"x"] * 20000], None),
]
IDS = [repr(case[0][:40]) for case in CASES]


def cuts(data: bytes) -> dict[str, list[bytes]]:
    """Return the same bytes in pieces of several sizes."""
    ways = {"whole": [data]}
    if len(data) < 1000:
        ways["byte by byte"] = [data[at : at + 1] for at in range(len(data))]
        for size in (2, 3, 7):
            ways[f"by {size}"] = [data[at : at + size] for at in range(0, len(data), size)]
    else:
        ways["by 1009"] = [data[at : at + 1009] for at in range(0, len(data), 1009)]
    return ways


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("quick", [True, False], ids=["quick", "scalar"])
def test_bytes_are_the_same_commands_and_error_in_whatever_pieces(
    case: tuple[bytes, list[list[bytes]], bytes | None], quick: bool
) -> None:
    data, commands, error = case
    for way, pieces in cuts(data).items():
        assert parse(pieces, quick) == (commands, None if error is None else PREFIX + error), way


def test_an_unauthenticated_client_gets_tight_limits_and_one_command_at_a_time() -> None:
    assert parse([PING * 3], trusted=False) == ([[b"PING"]] * 3, None)
    assert parse([written(*[b"a"] * 10)], trusted=False)[1] is None
    assert parse([written(*[b"a"] * 11)], trusted=False)[1] == PREFIX + b"unauthenticated multibulk length"
    assert parse([written(b"a" * 16384)], trusted=False)[1] is None
    assert parse([written(b"a" * 16385)], trusted=False)[1] == PREFIX + b"unauthenticated bulk length"
    for size in (1, 5, 100):
        data = PING * 4 + b"PING\r\n" + written(b"ECHO", b"x" * 50)
        assert parse([data[at : at + size] for at in range(0, len(data), size)], trusted=False)[0][-1][1] == b"x" * 50


def test_a_client_that_becomes_trusted_has_the_rest_of_its_bytes_read_freely() -> None:
    parser = RequestParser()
    parser.trusted = False
    found, rest = parser.parse_one(PING + written(*[b"w"] * 100) + PING)
    assert found == [[b"PING"]]
    parser.trusted = True
    assert parser.parse(rest) == [[b"w"] * 100, [b"PING"]]
    assert parser.at_boundary


def test_nothing_is_read_behind_an_error() -> None:
    parser = RequestParser()
    assert parser.parse(PING + b"*x\r\n" + PING) == [[b"PING"]]
    assert parser.parse(PING) == []
    assert parser.buffered == 0


def test_long_pipelines_in_any_pieces() -> None:
    """A long pipeline in pieces of any size gives all of its commands."""
    chance = random.Random(7)
    commands = [[b"XADD", b"s", b"*", b"f", b"v" * chance.randrange(40), b"%d" % n] for n in range(3000)]
    data = b"".join(written(*argv) for argv in commands)
    for size in (1000, 8191, 8192, 65536, len(data)):
        assert parse([data[at : at + size] for at in range(0, len(data), size)]) == (commands, None)


def test_a_big_value_in_pieces_is_parsed_in_linear_time() -> None:
    """64 MB in pieces of 16 KB, and a million words in pieces, take linear instead of quadratic time."""
    began = time.process_time()
    parser = RequestParser(1 << 30)
    value = os.urandom(1 << 20) * 64
    data = written(b"SET", b"k", value)
    found = []
    for at in range(0, len(data), 16384):
        found += parser.parse(data[at : at + 16384])
    assert found == [[b"SET", b"k", value]]
    data = written(*[b"word"] * 1_000_000)
    found = []
    for at in range(0, len(data), 4096):
        found += parser.parse(data[at : at + 4096])
    assert len(found[0]) == 1_000_000
    assert time.process_time() - began < 20


def test_a_big_value_is_not_copied_at_its_end() -> None:
    """Parsing a value in pieces needs its own memory and no second copy, which would delay other clients."""
    size, piece = 8 << 20, bytes(1 << 16)
    parser = RequestParser()
    tracemalloc.start()
    try:
        assert parser.parse(b"*2\r\n$4\r\nECHO\r\n$%d\r\n" % size) == []
        for _ in range(size // len(piece)):
            assert parser.parse(piece) == []
        found = parser.parse(b"\r\n")
        assert tracemalloc.get_traced_memory()[1] < size + len(piece)
    finally:
        tracemalloc.stop()
    assert found == [[b"ECHO", bytes(size)]]


def test_buffered_is_the_size_of_an_incomplete_request() -> None:
    """``buffered`` counts the bytes of an incomplete request that are waiting for the rest."""
    parser = RequestParser()
    parser.parse(written(b"SET", b"key")[:-2].replace(b"*2", b"*3"))
    assert 3 <= parser.buffered <= 8
    parser.parse(b"\r\n$100000\r\n" + b"x" * 5000)
    assert 5006 <= parser.buffered <= 5016
