"""Ranges of sorted sets by rank, score or member: read, stored and removed."""

from __future__ import annotations

import pytest

from tests.contract.transcripts import play
from tests.harness.kinds import Server
from tests.harness.replies import ANY, NOT_AN_INTEGER, OK, SYNTAX, Error, Score, Scored
from tests.servers.releases import Newest

_BOUND = Error("ERR min or max is not a float")
_LEX = Error("ERR min or max not valid string range item")
_LIMIT = Error("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
_NO_SCORES = Error("ERR syntax error, WITHSCORES not supported in combination with BYLEX")


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("ZRANK z a", 0),
            ("ZRANK z d", 3),
            ("ZREVRANK z d", 1),
            ("ZRANK z none", None),
            ("ZCOUNT z 2 3", 3),
            ("ZCOUNT z (2 (3", 0),
            ("ZCOUNT z -inf +inf", 5),
            ("ZCOUNT z 3 2", 0),
            ("ZCOUNT z (inf 1", 0),
            ("ZCOUNT z ( 1", 1),
            ("ZCOUNT z 1 1e400", 5),
            (("ZCOUNT", "z", b"(1\0", b"3\0x"), 3),
            (("ZCOUNT", "z", b"\0", "1"), 1),
            ("ZCOUNT z x 1", _BOUND),
            ("ZCOUNT z 1 nan", _BOUND),
            ("ZCOUNT z [1 2", _BOUND),
        ],
        [
            ("ZRANGE z 0 -1", ["a", "b", "c", "d", "e"]),
            ("ZRANGE z 1 2 WITHSCORES", Scored("b 2 c 3")),
            ("ZRANGE z -2 -1", ["d", "e"]),
            ("ZRANGE z -100 1", ["a", "b"]),
            ("ZRANGE z 4 9", ["e"]),
            ("ZRANGE z 5 9", []),
            ("ZRANGE z 3 2", []),
            ("ZRANGE z -9223372036854775808 9223372036854775807", ["a", "b", "c", "d", "e"]),
            ("ZRANGE z 9223372036854775808 1", NOT_AN_INTEGER),
            ("ZRANGE z 0 1 REV", ["e", "d"]),
            ("ZREVRANGE z 0 1 WITHSCORES", Scored("e 4.5 d 3")),
            ("ZREVRANGE z -2 -1", ["b", "a"]),
            ("ZRANGE none 0 -1", []),
        ],
        [
            ("ZRANGE z 2 3 BYSCORE", ["b", "c", "d"]),
            ("ZRANGE z (2 +inf BYSCORE WITHSCORES", Scored("c 3 d 3 e 4.5")),
            ("ZRANGE z 3 2 BYSCORE REV", ["d", "c", "b"]),
            ("ZRANGE z 2 3 BYSCORE REV", []),
            ("ZRANGE z 0 9 BYSCORE LIMIT 1 2", ["b", "c"]),
            ("ZRANGE z 0 9 BYSCORE LIMIT 3 -1", ["d", "e"]),
            ("ZRANGE z 0 9 BYSCORE LIMIT -1 2", Newest([], valkey={"8.0": ANY})),  # Valkey's order differs.
            ("ZRANGE z 0 9 BYSCORE LIMIT 9 2", []),
            ("ZRANGE z 0 9 BYSCORE LIMIT 9223372036854775807 9223372036854775807", []),
            ("ZRANGE z 9 0 BYSCORE REV LIMIT 1 2", ["d", "c"]),
            ("ZRANGEBYSCORE z (1 3 WITHSCORES LIMIT 0 2", Scored("b 2 c 3")),
            ("ZREVRANGEBYSCORE z 3 (1 LIMIT 1 1", ["c"]),
            ("ZRANGEBYSCORE z 3 1", []),
        ],
        [
            ("ZRANGE z 0 1 FOO", SYNTAX),
            ("ZRANGE z 0 1 LIMIT 0 1", _LIMIT),
            ("ZRANGE z 0 1 LIMIT 5 -1", ["a", "b"]),
            ("ZRANGE z 0 1 LIMIT -5 -1", ["a", "b"]),
            ("ZRANGE z 0 1 LIMIT 0", SYNTAX),
            ("ZRANGE z 0 1 BYSCORE LIMIT a 1", NOT_AN_INTEGER),
            ("ZRANGE z 0 1 BYSCORE BYLEX", SYNTAX),
            ("ZRANGE z 0 1 REV REV", SYNTAX),
            ("ZRANGE z 0 1 WITHSCORES WITHSCORES", Scored("a 1 b 2")),
            ("ZRANGE z - + BYLEX WITHSCORES", _NO_SCORES),
            ("ZRANGE z 0 1 BYLEX", _LEX),
            ("ZRANGE z x 1 BYSCORE FOO", SYNTAX),
            ("ZRANGE z x 1 BYSCORE", _BOUND),
            ("ZRANGE z 0 x", NOT_AN_INTEGER),
            ("ZREVRANGE z 0 1 BYSCORE", SYNTAX),
            ("ZREVRANGE z 0 1 REV", SYNTAX),
            ("ZRANGEBYSCORE z 0 1 REV", SYNTAX),
            ("ZRANGEBYLEX z - + WITHSCORES", _NO_SCORES),
            ("ZRANGESTORE d z 0 1 WITHSCORES", SYNTAX),
        ],
        [
            ("ZRANGESTORE d z 1 2", 2),
            ("ZRANGE d 0 -1 WITHSCORES", Scored("b 2 c 3")),
            ("ZRANGESTORE d z 9 (2 BYSCORE REV LIMIT 0 2", 2),
            ("ZRANGE d 0 -1", ["d", "e"]),
            ("ZRANGESTORE z z 0 0", 1),
            ("ZRANGE z 0 -1", ["a"]),
            ("ZRANGESTORE d z 5 6", 0),
            ("EXISTS d", 0),
            ("SET d v EX 100", OK),
            ("ZRANGESTORE d z 0 -1", 1),
            ("TTL d", -1),
        ],
        [
            ("ZREMRANGEBYRANK z 1 2", 2),
            ("ZREMRANGEBYSCORE z 4 9", 1),
            ("ZREMRANGEBYSCORE z 9 4", 0),
            ("ZREMRANGEBYRANK z 5 9", 0),
            ("ZREMRANGEBYSCORE z x 9", _BOUND),
            ("ZREMRANGEBYRANK z x 9", NOT_AN_INTEGER),
            ("ZRANGE z 0 -1", ["a", "d"]),
            ("ZREMRANGEBYRANK z 0 -1", 2),
            ("EXISTS z", 0),
        ],
        [
            ("ZREM z none", 0),
            ("ZADD z 0 b 5 d", 0),
            ("ZRANGE z 0 -1", ["b", "a", "c", "e", "d"]),
            ("ZRANK z d", 4),
            ("ZPOPMIN z", ["b", Score("0")]),
            ("ZRANK z a", 0),
        ],
    ],
)
def test_ranges(server: Server, big: bool, dialogue) -> None:
    """Ranges by rank and by score are read, stored and removed alike in both encodings of a sorted set."""
    given = "ZADD z 1 a 2 b 3 d 3 c 4.5 e"
    if big:
        server.given(("ZADD", "z", "7", "x" * 65), given, ("ZREM", "z", "x" * 65))
    else:
        server.given(given)
    play(server, dialogue)


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("ZLEXCOUNT z - +", 6),
            ("ZLEXCOUNT z [b (e", 4),
            ("ZLEXCOUNT z (b [bb", 1),
            ("ZLEXCOUNT z + -", 0),
            ("ZLEXCOUNT z [ [a", 1),
            ("ZLEXCOUNT z b c", _LEX),
            ("ZLEXCOUNT z -a +", _LEX),
            ("ZLEXCOUNT z - +a", _LEX),
            (("ZLEXCOUNT", "z", "", "+"), _LEX),
        ],
        [
            ("ZRANGE z [b [c BYLEX", ["b", "bb", "c"]),
            ("ZRANGE z [c [b BYLEX REV", ["c", "bb", "b"]),
            ("ZRANGE z [c [b BYLEX", []),
            ("ZRANGEBYLEX z - (bb", ["a", "b"]),
            ("ZRANGEBYLEX z (a + LIMIT 1 2", ["bb", "c"]),
            ("ZREVRANGEBYLEX z + (c", ["e", "d"]),
            ("ZREVRANGEBYLEX z + - LIMIT 4 9", ["b", "a"]),
        ],
        [("ZREMRANGEBYLEX z [bb (e", 3), ("ZREMRANGEBYLEX z [x +", 0), ("ZRANGE z 0 -1", ["a", "b", "e"])],
    ],
)
def test_ranges_of_members(server: Server, big: bool, dialogue) -> None:
    """If all scores are equal, ranges by member follow the order of the members' bytes."""
    given = "ZADD z 0 a 0 b 0 bb 0 c 0 d 0 e"
    if big:
        server.given(("ZADD", "z", "0", "x" * 65), given, ("ZREM", "z", "x" * 65))
    else:
        server.given(given)
    play(server, dialogue)
