"""Lists, and clients that wait for elements of lists."""

from __future__ import annotations

import pytest

from tests.contract.transcripts import play
from tests.harness.kinds import Server
from tests.harness.marks import over_tcp
from tests.harness.replies import ANY, NOT_AN_INTEGER, OK, SYNTAX, WRONGTYPE, Error
from tests.servers.releases import Newest

POSITIVE = Error("ERR value is out of range, must be positive")
TOO_LATE = Newest(Error("ERR timeout is out of range"), before={"7.2": Error("ERR timeout is negative")})
NO_OPPOSITE = Error("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807")


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("RPUSH l 1 2", 2),
            ("LPUSH l 0 -1", 4),
            ("LRANGE l 0 -1", ["-1", "0", "1", "2"]),
            ("LLEN l", 4),
            ("LLEN no", 0),
        ],
        [
            ("LPUSHX l 1", 0),
            ("RPUSHX l 1", 0),
            ("EXISTS l", 0),
            ("RPUSH l 1", 1),
            ("LPUSHX l 0", 2),
            ("RPUSHX l 2 3", 4),
        ],
        [
            ("RPUSH l 1 2 3 4 5", 5),
            ("LPOP l", "1"),
            ("RPOP l", "5"),
            ("LPOP l 2", ["2", "3"]),
            ("LPOP l 0", []),
            ("RPOP l 9", ["4"]),
            ("EXISTS l", 0),
        ],
        [
            ("LPOP l", None),
            ("LPOP l 5", None),
            ("LPOP l -1", POSITIVE),
            ("LPOP l x", POSITIVE),
            ("RPOP l 1 2", Error("ERR wrong number of arguments for 'rpop' command")),
        ],
        [
            ("RPUSH l a b c d e", 5),
            ("LRANGE l 1 3", ["b", "c", "d"]),
            ("LRANGE l -2 -1", ["d", "e"]),
            ("LRANGE l -100 1", ["a", "b"]),
            ("LRANGE l 3 100", ["d", "e"]),
            ("LRANGE l 4 2", []),
            ("LRANGE l 5 9", []),
            ("LRANGE no 0 -1", []),
            ("LRANGE l 0 x", NOT_AN_INTEGER),
        ],
        [
            ("RPUSH l a b c", 3),
            ("LINDEX l 0", "a"),
            ("LINDEX l -1", "c"),
            ("LINDEX l 3", None),
            ("LINDEX l -4", None),
            ("LINDEX no x", None),
            ("LINDEX l x", NOT_AN_INTEGER),
        ],
        [
            ("SET s 1", OK),
            ("LPUSH s 1", WRONGTYPE),
            ("LPOP s", WRONGTYPE),
            ("LRANGE s 0 1", WRONGTYPE),
            ("LLEN s", WRONGTYPE),
            ("BLPOP s 0", WRONGTYPE),
            ("LMOVE s l LEFT LEFT", WRONGTYPE),
            ("LINDEX s x", WRONGTYPE),
            ("LREM s 0 a", WRONGTYPE),
        ],
    ],
)
def test_ends_and_ranges(server: Server, dialogue) -> None:
    """Elements are pushed and popped at both ends and read by index; an empty list is deleted."""
    play(server, dialogue)


def test_a_pop_with_a_count_from_a_missing_list(server: Server) -> None:
    """For a missing list LPOP returns nil, and with a count the null array."""
    assert server.wire("LPOP l") == (b"_\r\n" if server.proto == 3 else b"$-1\r\n")
    assert server.wire("LPOP l 1") == (b"_\r\n" if server.proto == 3 else b"*-1\r\n")


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("LSET l 0 x", Error("ERR no such key")),
            ("RPUSH l a b", 2),
            ("LSET l -1 c", OK),
            ("LSET l 2 d", Error("ERR index out of range")),
            ("LSET l x d", NOT_AN_INTEGER),
            ("LRANGE l 0 -1", ["a", "c"]),
        ],
        [
            ("LINSERT l BEFORE a x", 0),
            ("RPUSH l a b", 2),
            ("LINSERT l before b x", 3),
            ("LINSERT l AFTER b y", 4),
            ("LINSERT l AFTER c z", -1),
            ("LINSERT l BESIDE a x", SYNTAX),
            ("LRANGE l 0 -1", ["a", "x", "b", "y"]),
        ],
        [
            ("RPUSH l a b a c a", 5),
            ("LREM l 1 a", 1),
            ("LRANGE l 0 -1", ["b", "a", "c", "a"]),
            ("LREM l -1 a", 1),
            ("LREM l 0 x", 0),
            ("LREM l 0 a", 1),
            ("LRANGE l 0 -1", ["b", "c"]),
            ("LREM l x a", NOT_AN_INTEGER),
            ("LREM no 0 a", 0),
            ("LREM no -9223372036854775808 a", Newest(NO_OPPOSITE, before={"7.2": 0})),
        ],
        [
            ("RPUSH l a b c d", 4),
            ("LTRIM l 1 -2", OK),
            ("LRANGE l 0 -1", ["b", "c"]),
            ("LTRIM l 5 9", OK),
            ("EXISTS l", 0),
            ("LTRIM l 0 0", OK),
        ],
        [
            ("RPUSH l a b c b b", 5),
            ("LPOS l b RANK -9223372036854775808", Newest(NO_OPPOSITE, before={"7.2": ANY})),
            ("LPOS l b", 1),
            ("LPOS l b RANK 2", 3),
            ("LPOS l b RANK -1", 4),
            ("LPOS l x", None),
            ("LPOS l b COUNT 0", [1, 3, 4]),
            ("LPOS l b COUNT 2 RANK -1", [4, 3]),
            ("LPOS l b COUNT 0 MAXLEN 3", [1]),
            ("LPOS l x COUNT 1", []),
            ("LPOS no x", None),
            ("LPOS no x COUNT 1", []),
        ],
        [
            (
                "LPOS l a RANK 0",
                Error(
                    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use "
                    "negative to start from the end of the list"
                ),
            ),
            ("LPOS l a COUNT -1", Error("ERR COUNT can't be negative")),
            ("LPOS l a MAXLEN -1", Error("ERR MAXLEN can't be negative")),
            ("LPOS l a RANK x", NOT_AN_INTEGER),
            ("LPOS l a COUNT", SYNTAX),
        ],
        [
            ("RPUSH a 1 2 3", 3),
            ("LMOVE a b RIGHT LEFT", "3"),
            ("LMOVE a b left right", "1"),
            ("LRANGE b 0 -1", ["3", "1"]),
            ("RPOPLPUSH a a", "2"),
            ("RPOPLPUSH a b", "2"),
            ("EXISTS a", 0),
            ("LMOVE a b LEFT LEFT", None),
            ("LMOVE a b UP LEFT", SYNTAX),
            ("RPOPLPUSH b b", "1"),
            ("LRANGE b 0 -1", ["1", "2", "3"]),
        ],
        [
            ("RPUSH a 1", 1),
            ("SET s 1", OK),
            ("LMOVE a s LEFT LEFT", WRONGTYPE),
            ("LLEN a", 1),
            ("LMOVE no s LEFT LEFT", None),
        ],
    ],
)
def test_changes(server: Server, dialogue) -> None:
    """Elements are replaced, inserted, removed, found and moved."""
    play(server, dialogue)


@pytest.mark.parametrize(
    ("timeout", "reply"),
    [
        ("x", Error("ERR timeout is not a float or out of range")),
        ("nan", Error("ERR timeout is not a float or out of range")),
        ("-1", Error("ERR timeout is negative")),
        ("-1e400", Error("ERR timeout is negative")),
        ("1e400", TOO_LATE),
        ("inf", TOO_LATE),
        ("9223372036854776", TOO_LATE),
        ("0.001", None),
    ],
)
def test_timeouts(server: Server, timeout: str, reply) -> None:
    """Timeouts may have decimals; a timeout that is negative, too large or not a number is an error."""
    if reply is None:
        client = server.client()
        client.send("BLPOP", "l", timeout)
        server.let_pass(5)
        client.expect_reply(None)
    else:
        play(server, [(f"BLPOP l {timeout}", reply), (f"BLMOVE l m LEFT LEFT {timeout}", reply)])


def test_an_existing_element_is_taken_at_once(server: Server) -> None:
    """BLPOP and BRPOP take from the first list that has an element; BLMOVE and BRPOPLPUSH move one."""
    server.given("RPUSH b 1 2 3 4")
    play(
        server,
        [
            ("BLPOP a b 0", ["b", "1"]),
            ("BRPOP a b 0", ["b", "4"]),
            ("BLMOVE b c LEFT RIGHT 0", "2"),
            ("BRPOPLPUSH b c 0", "3"),
            ("LRANGE c 0 -1", ["3", "2"]),
        ],
    )


def test_waiting_clients_are_served_in_order(server: Server) -> None:
    """The client that waited first gets the first element; a client for which no element is left continues to wait."""
    first, second, third = server.client(), server.client(), server.client()
    for client in (first, second, third):
        client.send("BLPOP q other 0")
        client.expect_blocked()
    server.expect("RPUSH q a b", 2)
    first.expect_reply(["q", "a"])
    second.expect_reply(["q", "b"])
    third.expect_blocked()
    server.expect("LPUSH other c", 1)
    third.expect_reply(["other", "c"])
    server.expect("EXISTS q other", 0)


def test_waiters_are_served_after_a_transaction(server: Server) -> None:
    """No client is served before EXEC ends: an element added and removed in the transaction wakes no client."""
    client = server.client()
    client.send("BRPOP q 0")
    client.expect_blocked()
    play(
        server,
        [("MULTI", OK), ("RPUSH q a", "QUEUED"), ("DEL q", "QUEUED"), ("RPUSH q b c", "QUEUED"), ("EXEC", [1, 1, 2])],
    )
    client.expect_reply(["q", "c"])


def test_a_moved_element_wakes_the_next(server: Server) -> None:
    """An element that BLMOVE moves is given at once to a client that waits for the target list."""
    mover, taker = server.client(), server.client()
    taker.send("BLPOP b 0")
    taker.expect_blocked()
    mover.send("BLMOVE a b LEFT RIGHT 0")
    mover.expect_blocked()
    server.expect("RPUSH a x", 1)
    mover.expect_reply("x")
    taker.expect_reply(["b", "x"])
    server.expect("DBSIZE", 0)


def test_a_blocked_move_onto_another_type(server: Server) -> None:
    """If the target has another type when an element is added, the client gets an error and the element stays."""
    client = server.client()
    client.send("BLMOVE a s LEFT RIGHT 0")
    client.expect_blocked()
    server.given("SET s 1", "RPUSH a x")
    client.expect_reply(WRONGTYPE)
    server.expect("LRANGE a 0 -1", ["x"])


@pytest.mark.parametrize(
    "lines",
    [
        ["RPUSH tmp x", "RENAME tmp q"],
        ["RPUSH tmp x", "COPY tmp q"],
        ["SET q 1", "DEL q", "RPUSH q x"],
        ["MULTI", "RPUSH tmp x", "SWAPDB 0 1", "SWAPDB 1 0", "RENAME tmp q", "EXEC"],
    ],
)
def test_a_list_created_by_another_command(server: Server, lines: list[str]) -> None:
    """A waiting client is served by every command that creates its list."""
    client = server.client()
    client.send("BLPOP q 0")
    client.expect_blocked()
    server.given(*lines)
    client.expect_reply(["q", "x"])


@over_tcp
def test_the_reply_after_a_timeout(server: Server) -> None:
    """After its timeout a blocking command returns the null array; BLMOVE in a transaction returns nil."""
    null = b"_\r\n" if server.main.proto == 3 else b"*-1\r\n"
    for command in ("BLPOP q 0.001", "BLMPOP 0.001 1 q LEFT", "BLMOVE q p LEFT LEFT 0.001", "BRPOPLPUSH q p 0.001"):
        assert server.wire(command) == null, command
    server.given("MULTI", "BLMOVE q p LEFT LEFT 0.001", "BRPOPLPUSH q p 0.001", "BLPOP q 0.001")
    assert server.wire("EXEC") == b"*3\r\n" + 2 * (b"_\r\n" if server.main.proto == 3 else b"$-1\r\n") + null


def test_nothing_blocks_in_a_transaction(server: Server) -> None:
    """In EXEC a blocking pop that finds no elements replies as after its timeout."""
    server.given("MULTI", "BLPOP q 0", "BLMOVE q p LEFT LEFT 0", "PING")
    server.expect("EXEC", [None, None, "PONG"])


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("RPUSH b 1 2 3 4", 4),
            ("LMPOP 2 a b LEFT", ["b", ["1"]]),
            ("LMPOP 2 a b right COUNT 2", ["b", ["4", "3"]]),
            ("LMPOP 1 b LEFT COUNT 9", ["b", ["2"]]),
            ("EXISTS b", 0),
            ("RPUSH b 1 2 3", 3),
            ("BLMPOP 0 2 a b LEFT COUNT 2", ["b", ["1", "2"]]),
        ],
        [
            ("SET s v", OK),
            ("RPUSH l 1", 1),
            ("LMPOP 2 l s LEFT", ["l", ["1"]]),
            ("LMPOP 2 l s LEFT", WRONGTYPE),
            ("BLMPOP 0 2 s l LEFT", WRONGTYPE),
            ("LMPOP 0 l LEFT", Error("ERR numkeys should be greater than 0")),
            ("BLMPOP x y l LEFT", Error("ERR numkeys should be greater than 0")),
            ("BLMPOP x 1 l LEFT", Error("ERR timeout is not a float or out of range")),
            ("LMPOP 2 l LEFT", SYNTAX),
            ("LMPOP 1 l UP", SYNTAX),
            ("LMPOP 1 l LEFT COUNT", SYNTAX),
            ("LMPOP 1 l LEFT COUNT 1 COUNT 1", SYNTAX),
            ("LMPOP 1 l LEFT COUNT 0", Error("ERR count should be greater than 0")),
        ],
    ],
)
def test_pops_from_several_lists(server: Server, dialogue) -> None:
    """LMPOP and BLMPOP take elements from the first non-empty list; a key of another type before it is an error."""
    play(server, dialogue)


def test_blmpop_gets_up_to_count_elements(server: Server) -> None:
    """A push serves a client in BLMPOP with up to COUNT of its elements."""
    client = server.client()
    client.send("BLMPOP 0 2 a b RIGHT COUNT 2")
    client.expect_blocked()
    server.expect("RPUSH b 1 2 3", 3)
    client.expect_reply(["b", ["3", "2"]])
    server.expect("LRANGE b 0 -1", ["1"])
