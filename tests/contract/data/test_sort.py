"""SORT and SORT_RO."""

from __future__ import annotations

import pytest

from tests.contract.transcripts import play
from tests.harness.kinds import Server
from tests.harness.marks import since
from tests.harness.replies import NOT_AN_INTEGER, OK, SYNTAX, WRONGTYPE, AnyOrder, Error
from tests.servers.releases import Newest

_NOT_NUMBERS = Error("ERR One or more scores can't be converted into double")
_LIST = ("RPUSH l 3 1 2 10", 4)


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            _LIST,
            ("SORT l", ["1", "2", "3", "10"]),
            ("SORT_RO l DESC", ["10", "3", "2", "1"]),
            ("SORT l ALPHA", ["1", "10", "2", "3"]),
            ("SORT l DESC ASC ALPHA DESC", ["3", "2", "10", "1"]),
            ("SORT l LIMIT 1 2", ["2", "3"]),
            ("SORT l LIMIT -1 2", ["1", "2"]),
            ("SORT l LIMIT 2 -1", ["3", "10"]),
            ("SORT l LIMIT 5 2", []),
            ("SORT l BY nosort", ["3", "1", "2", "10"]),
            ("SORT l BY nosort DESC LIMIT 1 2", ["2", "1"]),
            ("SORT none", []),
        ],
        [
            _LIST,
            ("MSET w1 5 w2 4 w3 3", OK),
            ("SORT l BY w*", ["10", "3", "2", "1"]),
            ("SORT l BY w* LIMIT 1 1 GET # GET w* GET no*", ["3", "3", None]),
            ("HSET h1 f 9", 1),
            ("HSET h2 f 8", 1),
            ("SORT l BY h*->f GET h*->f DESC", ["9", "8", None, None]),
            ("SORT l BY h*-> GET w*->f", [None] * 4),
            ("SORT l GET w1", [None] * 4),
            ("SORT l BY w* ALPHA", ["10", "3", "2", "1"]),
            ("SET w3 x", OK),
            ("SORT l BY w*", _NOT_NUMBERS),
        ],
        [
            ("RPUSH l b a b", 3),
            ("SORT l", _NOT_NUMBERS),
            ("SORT l ALPHA", ["a", "b", "b"]),
            ("SORT l BY none*", ["a", "b", "b"]),
            ("SORT l BY none* DESC", ["b", "b", "a"]),
            (("RPUSH", "numbers", "1.5", "", "-inf", "1e1", "+2", ".5"), 6),
            ("SORT numbers", Newest(["-inf", "", ".5", "1.5", "+2", "1e1"], valkey={"9.1": _NOT_NUMBERS})),
            (("RPUSH", "wrong", "1", "2x"), 2),
            ("SORT wrong", _NOT_NUMBERS),
            ("RPUSH nan 1 nan", 2),
            ("SORT nan", _NOT_NUMBERS),
        ],
        [
            ("SADD x 3 1 2 b", 4),
            ("SORT x", _NOT_NUMBERS),
            ("SORT x ALPHA DESC", ["b", "3", "2", "1"]),
            ("SORT x BY nosort", AnyOrder(["1", "2", "3", "b"])),
            ("SORT x BY nosort STORE to", 4),
            ("LRANGE to 0 -1", ["1", "2", "3", "b"]),
        ],
        [
            ("ZADD z 1 c 2 a 3 b", 3),
            ("SORT z ALPHA", ["a", "b", "c"]),
            ("SORT z", _NOT_NUMBERS),
            ("SORT z BY nosort", ["c", "a", "b"]),
            ("SORT z BY nosort DESC LIMIT 0 2", ["b", "a"]),
            ("SORT z BY nosort LIMIT 1 1 STORE to", 1),
            ("LRANGE to 0 -1", ["a"]),
        ],
        [
            _LIST,
            ("SET to v EX 100", OK),
            ("SET w1 5", OK),
            ("SORT l GET w* STORE to", 4),
            ("LRANGE to 0 -1", ["5", "", "", ""]),
            ("TTL to", -1),
            ("SORT l STORE l", 4),
            ("LRANGE l 0 -1", ["1", "2", "3", "10"]),
            ("SORT none STORE to", 0),
            ("EXISTS to", 0),
        ],
        [
            _LIST,
            ("SET s 1", OK),
            ("SORT s", WRONGTYPE),
            ("SORT l FOO", SYNTAX),
            ("SORT l LIMIT 1", SYNTAX),
            ("SORT l LIMIT 1 x", NOT_AN_INTEGER),
            ("SORT l BY", SYNTAX),
            ("SORT_RO l STORE to", SYNTAX),
            ("COMMAND GETKEYS SORT l BY STORE GET # STORE a STORE b", ["l", "b"]),
            (
                "COMMAND GETKEYSANDFLAGS SORT l STORE b",
                [["l", AnyOrder(["RO", "access"])], ["b", AnyOrder(["OW", "update"])]],
            ),
        ],
    ],
)
def test_sorting(server: Server, dialogue) -> None:
    """SORT orders elements as numbers or words, by themselves or by other keys, and returns them or the values of other
    keys.
    """
    play(server, dialogue)


@since("7.4")
@pytest.mark.parametrize("word", [" 1", "0x10"])
def test_invalid_numbers(server: Server, word: str) -> None:
    """SORT rejects numbers that start with a blank or have a hexadecimal prefix."""
    server.run("RPUSH", "l", word, "1")
    server.expect("SORT l", _NOT_NUMBERS)


def test_store_publishes_an_event(server: Server) -> None:
    """STORE publishes an event for the list that it creates or the key that it deletes."""
    server.config("notify-keyspace-events", "EA")
    client = server.client()
    client.run("PSUBSCRIBE __keyevent@*")
    server.given("RPUSH l 2 1", "SORT l STORE d", "SORT none STORE d", "SORT none STORE d")
    for event, key in (("rpush", "l"), ("sortstore", "d"), ("del", "d")):
        client.expect_reply(["pmessage", "__keyevent@*", f"__keyevent@0__:{event}", key])
    client.expect_nothing()


def test_by_and_get_need_permission_for_all_keys(server: Server) -> None:
    """A user may sort keys that it may read; BY with a pattern and GET need read permission for all keys."""
    server.given("RPUSH l 2 1", "ACL SETUSER sorter on nopass +@all %R~l ~d ~w*")
    client = server.client()
    client.run("AUTH sorter x")
    by, get = (
        Error(f"ERR {name} option of SORT denied due to insufficient ACL permissions.") for name in ("BY", "GET")
    )
    for command, reply in (
        ("SORT l", ["1", "2"]),
        ("SORT l BY nosort", ["2", "1"]),
        ("SORT l BY w*", by),
        ("SORT_RO l BY w*", by),
        ("SORT l GET #", get),
        ("SORT l STORE d", 2),
    ):
        assert server.same(client.run(command), reply), command
    assert client.run("SORT l STORE e").text.startswith("NOPERM ")
    server.given("ACL SETUSER sorter %R~*")
    assert server.same(client.run("SORT l BY w*"), ["1", "2"])
    server.given("ACL DELUSER sorter")
