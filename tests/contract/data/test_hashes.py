"""Hashes: random fields and HSCAN. tests/differential compares the other commands with a real Redis."""

from __future__ import annotations

from tests.contract.transcripts import play
from tests.harness.kinds import Server
from tests.harness.replies import SYNTAX, Error


def test_random_fields_with_values(server: Server) -> None:
    """HRANDFIELD WITHVALUES returns a flat list in RESP2 and a list of pairs in RESP3."""
    server.given("HSET h a 1")
    pair = [["a", "1"]] if server.proto == 3 else ["a", "1"]
    server.expect("HRANDFIELD h 2 WITHVALUES", pair)


def test_random_fields_are_distinct(server: Server) -> None:
    """HRANDFIELD with a count below the number of fields returns that many distinct fields."""
    server.given("HSET h a 1 b 2 c 3")
    drawn = server.run("HRANDFIELD h 2")
    assert len(set(drawn)) == 2
    assert set(drawn) < {b"a", b"b", b"c"}


def test_a_number_with_spaces_is_not_a_float(server: Server) -> None:
    """HINCRBYFLOAT refuses spaces around a number, and accepts zero in hexadecimal digits."""
    for word in (" 1", "1 ", "1\n"):
        server.expect(("HINCRBYFLOAT", "h", "f", word), Error("ERR value is not a valid float"))
    server.expect("HINCRBYFLOAT h f 0x0.0p5", "0")


def test_a_small_hash_is_scanned_in_one_step(server: Server) -> None:
    """HSCAN returns a small hash completely, regardless of COUNT, and a large one in steps."""
    server.given("HSET h a 1 b 2 c 3")
    play(
        server,
        [
            ("HSCAN h 0 COUNT 1", ["0", ["a", "1", "b", "2", "c", "3"]]),
            ("HSCAN h 0 MATCH [ab]", ["0", ["a", "1", "b", "2"]]),
            ("HSCAN h 0 TYPE hash", SYNTAX),
        ],
    )
    server.run("HSET", "h", *[word for number in range(600) for word in (f"f{number}", "v")])
    cursor, met, steps = b"0", set(), 0
    while True:
        cursor, words = server.run("HSCAN", "h", cursor, "COUNT", "50")
        met |= set(words[::2])
        steps += 1
        if cursor == b"0":
            break
    assert len(met) == 603
    assert steps > 5
