"""Commands on keys of any type: expiry, SCAN, DUMP. tests/differential compares the others with a real Redis."""

from __future__ import annotations

from tests.contract.transcripts import play
from tests.harness.kinds import Server
from tests.harness.marks import hand_clock
from tests.harness.replies import NOT_AN_INTEGER, OK, SYNTAX, Between, Error
from tests.servers.releases import Newest


def test_flushing_now_or_later(server: Server) -> None:
    """FLUSHDB and FLUSHALL take SYNC or ASYNC, and nothing else."""
    play(
        server,
        [
            *[("SET a 1", OK), ("FLUSHDB ASYNC", OK), ("DBSIZE", 0), ("FLUSHALL sync", OK)],
            *[("FLUSHDB now", SYNTAX), ("FLUSHALL SYNC ASYNC", SYNTAX)],
        ],
    )


def test_a_value_may_be_any_bytes(server: Server) -> None:
    """Keys and values with line ends, zero bytes and bytes that are not UTF-8 are returned unchanged."""
    data = bytes(range(256)) + b"\r\n"
    play(server, [(("SET", data, data), OK), (("GET", data), data), (("STRLEN", data), 258), ("KEYS *", [data])])


def test_a_key_expires(server: Server) -> None:
    """An expired key does not exist for any command."""
    server.given("SET a 1 PX 20", "SET b 1")
    server.let_pass(25)
    play(server, [("GET a", None), ("EXISTS a b", 1), ("KEYS *", ["b"]), ("TTL a", -2), ("SETNX a 2", 1)])


@hand_clock
def test_ttl_is_rounded_to_the_nearest_second(server: Server) -> None:
    """TTL rounds to seconds, and PTTL is exact."""
    server.given("SET a 1 PX 1500")
    play(server, [("TTL a", 2), ("PTTL a", 1500)])
    server.let_pass(1)
    play(server, [("TTL a", 1), ("PTTL a", 1499)])


def test_errors_of_scan(server: Server) -> None:
    """SCAN and HSCAN return Redis's errors for invalid arguments, and an empty page for valid ones if no key exists."""
    for command, reply in [
        ("SCAN x", Error("ERR invalid cursor")),
        ("SCAN 1x", Error("ERR invalid cursor")),
        ("SCAN 18446744073709551616", Error("ERR invalid cursor")),
        (("SCAN", "1 "), Error("ERR invalid cursor")),
        ("SCAN -1", Newest(Error("ERR invalid cursor"), before={"7.2": ["0", []]})),
        ("SCAN -9223372036854775808", Newest(Error("ERR invalid cursor"), before={"7.2": ["0", []]})),
        ("SCAN -18446744073709551616", Error("ERR invalid cursor")),
        ("SCAN " + 5000 * "1", Error("ERR invalid cursor")),
        (("HSCAN", "h", ""), Newest(Error("ERR invalid cursor"), before={"7.2": ["0", []]})),
        (("SCAN", ""), Newest(Error("ERR invalid cursor"), before={"7.2": ["0", []]})),
        ("SCAN 0 COUNT 0", SYNTAX),
        ("SCAN 0 COUNT x", NOT_AN_INTEGER),
        ("SCAN 0 COUNT", SYNTAX),
        ("SCAN 0 LIMIT 5", SYNTAX),
        ("SCAN 0 TYPE none", Newest(["0", []], valkey={"8.0": Error("ERR unknown type name 'none'")})),
        ("HSCAN h x", Error("ERR invalid cursor")),
        ("HSCAN h 0 COUNT 0", ["0", []]),
        ("HSCAN h 0 TYPE hash", ["0", []]),
    ]:
        server.expect(command, reply)


def test_scan_with_an_empty_type(server: Server) -> None:
    """SCAN with an empty type returns no keys, and in Valkey since 8.0 an error."""
    server.expect("SET a 1", OK)
    server.expect(("SCAN", "0", "TYPE", ""), Newest(["0", []], valkey={"8.0": Error("ERR unknown type name ''")}))


def test_scan_returns_all_keys(server: Server) -> None:
    """A complete SCAN returns every key; with MATCH or TYPE it returns the matching keys only."""
    for number in range(60):
        server.run("SET", f"k{number}", "v")
    server.given("HSET hash f v")

    def walk(*options: str) -> set[bytes]:
        found, cursor = set(), b"0"
        while True:
            cursor, keys = server.run("SCAN", cursor, *options)
            found |= set(keys)
            if cursor == b"0":
                return found

    assert walk() == walk("COUNT", "3") == {b"k%d" % number for number in range(60)} | {b"hash"}
    assert walk("MATCH", "k1?", "COUNT", "7") == {b"k%d" % number for number in range(10, 20)}
    assert walk("TYPE", "HASH") == {b"hash"}


BAD_DUMP = Error("ERR DUMP payload version or checksum are wrong")


def test_errors_of_restore(server: Server) -> None:
    """RESTORE checks its arguments in Redis's order and returns Redis's errors."""
    for dialogue in [
        [("DUMP a", None), ("SET a 1", OK), ("RESTORE b 0 x", BAD_DUMP), ("RESTORE b x x", NOT_AN_INTEGER)],
        [("RESTORE b -1 x", Error("ERR Invalid TTL value, must be >= 0")), ("RESTORE b 0 x SOON", SYNTAX)],
        [("SET a 1", OK), ("RESTORE a x x", Error("BUSYKEY Target key name already exists."))],
        [
            ("SET a 1", OK),
            ("RESTORE a 0 x REPLACE", BAD_DUMP),
            ("GET a", "1"),
            ("RESTORE a 0 x REPLACE IDLETIME", SYNTAX),
        ],
    ]:
        server.given("FLUSHALL")
        play(server, dialogue)


def test_dump_and_restore(server: Server) -> None:
    """A dumped value can be restored under another name, with the given expiry."""
    server.given("HSET h a 1 b 2", "SET s 12", "XADD x 1-1 f v", "XGROUP CREATE x g 0")
    for key in ("h", "s", "x"):
        payload = server.run("DUMP", key)
        server.expect(("RESTORE", f"{key}2", "0", payload), OK)
        server.expect(("RESTORE", f"{key}2", "100000", payload, "REPLACE"), OK)
        server.expect(("TTL", f"{key}2"), Between(99, 100))
        server.expect(("RESTORE", f"{key}2", "4102444800123", payload, "REPLACE", "ABSTTL"), OK)
        server.expect(("PEXPIRETIME", f"{key}2"), 4102444800123)
        server.expect(("RESTORE", f"{key}3", "1", payload, "ABSTTL"), OK)
    play(
        server,
        [
            ("HMGET h2 a b c", ["1", "2", None]),
            ("INCR s2", 13),
            ("XLEN x2", 1),
            ("XGROUP DESTROY x2 g", 1),
            ("EXISTS h3 s3 x3", 0),
        ],
    )
