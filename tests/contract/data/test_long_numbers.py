"""Numbers of thousands of digits, which Python refuses to convert: each gets Redis's reply."""

from __future__ import annotations

from tests.harness.kinds import Server
from tests.harness.replies import INVALID_ID, NOT_AN_INTEGER, OK, Error

LONG = "1" * 5000


def test_a_number_of_thousands_of_digits_gets_the_reply_of_redis(server: Server) -> None:
    """A number of thousands of digits gets the same reply as in Redis, on the core and over TCP."""
    for command, reply in [
        (f"XADD s {LONG} f v", INVALID_ID),
        (f"XADD s 1-{LONG} f v", INVALID_ID),
        (f"XADD s {LONG}-* f v", INVALID_ID),
        (f"XADD s MAXLEN {LONG} 1-1 f v", NOT_AN_INTEGER),
        (f"XRANGE s {LONG} +", INVALID_ID),
        (f"XRANGE s - ({LONG}", INVALID_ID),
        (f"XREAD STREAMS s {LONG}", INVALID_ID),
        (f"INCRBY k {LONG}", NOT_AN_INTEGER),
        (f"EXPIRE k {LONG}", NOT_AN_INTEGER),
        (f"HINCRBYFLOAT h f {'0' * 4990}25", "25"),
        (f"HINCRBYFLOAT h f {LONG}", Error("ERR value is not a valid float")),
        (f"SCAN {LONG}", Error("ERR invalid cursor")),
        (f"SELECT {LONG}", NOT_AN_INTEGER),
    ]:
        server.expect(command, reply)
        server.expect("PING", "PONG")


def test_a_number_of_thousands_of_digits_in_a_transaction(server: Server) -> None:
    """Only the command with the number fails; the commands before and after it run."""
    server.given("MULTI", "SET a 1", f"XADD s {LONG} f v", "SET b 2")
    assert server.same(server.run("EXEC")[0], OK)
    server.expect("MGET a b", ["1", "2"])
    server.expect("EXISTS s", 0)
