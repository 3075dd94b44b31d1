"""Sorted sets: members, scores, encodings, ZSCAN and random members."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.transcripts import play
from tests.harness.kinds import Server
from tests.harness.marks import since
from tests.harness.replies import NOT_AN_INTEGER, SYNTAX, WRONGTYPE, Error, Score, Scored
from tests.servers.releases import Newest

_NOT_A_FLOAT = Error("ERR value is not a valid float")
_BOUND = Error("ERR min or max is not a float")
_NAN = Error("ERR resulting score is not a number (NaN)")
_GT_LT = Error("ERR GT, LT, and/or NX options at the same time are not compatible")
_COMMANDS_ON_ONE = """
    ZADD s 1 a | ZADD s INCR 1 a | ZINCRBY s 1 a | ZREM s a | ZCARD s | ZSCORE s a | ZMSCORE s a | ZRANK s a
    ZREVRANK s a | ZCOUNT s 1 2 | ZLEXCOUNT s - + | ZRANGE s 0 1 | ZREVRANGE s 0 1 | ZRANGEBYSCORE s 1 2
    ZREVRANGEBYSCORE s 2 1 | ZRANGEBYLEX s - + | ZREVRANGEBYLEX s + - | ZRANGESTORE d s 0 1 | ZREMRANGEBYRANK s 0 1
    ZREMRANGEBYSCORE s 1 2 | ZREMRANGEBYLEX s - + | ZPOPMIN s | ZPOPMAX s 2 | ZPOPMIN s 0 | ZRANDMEMBER s
    ZRANDMEMBER s 2 | ZSCAN s 0 | BZPOPMIN none s 0 | BZPOPMAX s 0 | ZMPOP 2 none s MIN | BZMPOP 0 1 s MAX
    ZUNION 2 none s | ZINTER 2 none s | ZDIFF 2 none s | ZINTERCARD 2 none s | ZUNIONSTORE d 1 s
"""


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("ZADD z 1 a 2.5 b -3 c", 3),
            ("ZADD z 4 a 7 d", 1),
            ("ZADD z CH 4 a 8 d 9 e", 2),
            ("ZCARD z", 5),
            ("ZRANGE z 0 -1 WITHSCORES", Scored("c -3 b 2.5 a 4 d 8 e 9")),
            ("ZSCORE z b", Score("2.5")),
            ("ZSCORE z none", None),
            ("ZMSCORE z b none a", [Score("2.5"), None, Score("4")]),
            ("TYPE z", "zset"),
        ],
        [("ZCARD z", 0), ("ZSCORE z a", None), ("ZMSCORE z a b", [None, None]), ("ZREM z a", 0), ("ZRANK z a", None)],
        [("ZADD z 1 a 2 b", 2), ("ZREM z a c a", 1), ("ZREM z c", 0), ("ZREM z b", 1), ("EXISTS z", 0)],
        [
            ("ZADD z NX 1 a", 1),
            ("ZADD z NX 2 a 3 b", 1),
            ("ZADD z XX 5 a 5 c", 0),
            ("ZADD z XX CH 6 a 5 c", 1),
            ("ZADD z GT 5 a 1 d", 1),
            ("ZADD z LT CH 5 a 2 d", 1),
            ("ZADD z XX GT CH 7 a 7 e", 1),
            ("ZRANGE z 0 -1 WITHSCORES", Scored("d 1 b 3 a 7")),
            ("ZADD none XX 1 a", 0),
            ("EXISTS none", 0),
        ],
        [
            ("ZADD z INCR 1.5 a", Score("1.5")),
            ("ZADD z INCR 2 a", Score("3.5")),
            ("ZADD z NX INCR 2 a", None),
            ("ZADD z XX INCR 2 b", None),
            ("ZADD z GT INCR -1 a", None),
            ("ZADD z LT CH INCR -1 a", Score("2.5")),
            ("ZINCRBY z -2.5 a", Score("0")),
            ("ZINCRBY z inf b", Score("inf")),
            ("ZINCRBY z -inf b", _NAN),
            ("ZADD z INCR -inf b", _NAN),
            ("ZINCRBY z 3 new", Score("3")),
            ("ZRANGE z 0 -1 WITHSCORES", Scored("a 0 new 3 b inf")),
        ],
        [
            ("ZADD z", Error("ERR wrong number of arguments for 'zadd' command")),
            ("ZADD z NX XX 1 a", Error("ERR XX and NX options at the same time are not compatible")),
            ("ZADD z NX GT 1 a", _GT_LT),
            ("ZADD z GT LT 1 a", _GT_LT),
            ("ZADD z INCR 1 a 2 b", Error("ERR INCR option supports a single increment-element pair")),
            ("ZADD z 1 a 2", SYNTAX),
            ("ZADD z FOO 1 a", SYNTAX),
            ("ZADD z NX XX CH", SYNTAX),
            ("ZADD z 1 a x b", _NOT_A_FLOAT),
            ("ZINCRBY z x a", _NOT_A_FLOAT),
            ("ZINCRBY z nan a", _NOT_A_FLOAT),
            ("EXISTS z", 0),
        ],
    ],
)
def test_members(server: Server, dialogue) -> None:
    """Members are added under conditions, scored and removed; an empty sorted set is deleted."""
    play(server, dialogue)


def test_another_type(server: Server) -> None:
    """Every command rejects a key of another type, unless an earlier check fails first."""
    server.given("SET s 1")
    for command in [part.strip() for line in _COMMANDS_ON_ONE.splitlines() for part in line.split("|") if part.strip()]:
        server.expect(command, WRONGTYPE)
    play(
        server,
        [
            ("ZADD s x a", _NOT_A_FLOAT),
            ("ZCOUNT s x 1", _BOUND),
            ("ZRANGE s x 1", NOT_AN_INTEGER),
        ],
    )


#: A score as it is sent, and as it is returned.
SCORES: dict[str, Any] = {
    "1": "1",
    "-7": "-7",
    "3.0": "3",
    "+5": "5",
    "5.": "5",
    ".5": "0.5",
    "1e3": "1000",
    "inf": "inf",
    "-Infinity": "-inf",
    "+INF": "inf",
    "1e15": "1000000000000000",
    "9007199254740993": "9007199254740992",
    "1e20": "1e+20",
    "1.5e-9": Newest("1.5e-9", {"7.2": "1.5e-09"}),
    "3.1": Newest("3.1", {"7.2": "3.1000000000000001"}),
    "0.00001": Newest("0.00001", {"7.2": "1.0000000000000001e-05"}),
    "0.0000001": Newest("1e-7", {"7.2": "9.9999999999999995e-08"}),
    "12345.6789012": Newest("1.23456789012e+4", {"7.2": "12345.678901200001"}),
    "1e17": Newest("100000000000000000", {"7.2": "1e+17"}),
    "123456789012345678901": Newest("123456789012345680000", {"7.2": "1.2345678901234568e+20"}),
    "1e300": Newest("1e+300", {"7.2": "1.0000000000000001e+300"}),
    "5e-324": Newest("5e-324", {"7.2": "4.9406564584124654e-324"}),
    "4611686018427387904": Newest("4611686018427387904", {"7.2": "4.6116860184273879e+18"}),
    "9223372036854775807": Newest("9223372036854776000", {"7.2": "9.2233720368547758e+18"}),
}


@pytest.mark.parametrize("given", SCORES)
def test_scores_are_shown_with_the_fewest_digits(server: Server, given: str) -> None:
    """A score is returned with the fewest digits that identify it; before Redis 7.2 it has up to 17 digits."""
    expected = SCORES[given]
    text = expected.of(server.release) if isinstance(expected, Newest) else expected
    server.given(f"ZADD z {given} member")
    wire = server.wire("ZSCORE z member")
    assert wire == (b",%b\r\n" % text.encode() if server.proto == 3 else b"$%d\r\n%b\r\n" % (len(text), text.encode()))


def test_hexadecimal_scores(server: Server) -> None:
    """Hexadecimal scores are accepted, except by Valkey since 9.1."""
    server.expect("ZADD z 0x1p4 member", Newest(1, valkey={"9.1": _NOT_A_FLOAT}))
    server.expect("ZCOUNT z 16 16", Newest(1, valkey={"9.1": 0}))


@pytest.mark.parametrize("word", ["", " 1", "1 ", "x", "nan", "nan(1)", "1_0", "1e", "0x", "1e400", "-1e400", "1e-400"])
def test_invalid_scores_are_rejected(server: Server, word: str) -> None:
    """Scores with blanks, texts that are not numbers, and numbers outside the range of a double are rejected."""
    server.expect(("ZADD", "z", word, "a"), _NOT_A_FLOAT)
    server.expect(("ZINCRBY", "z", word, "a"), _NOT_A_FLOAT)
    server.expect(("ZUNION", "1", "z", "WEIGHTS", word), Error("ERR weight value is not a float"))


def test_the_sign_of_zero(server: Server) -> None:
    """A small sorted set drops the sign of zero and a large one keeps it; the reply to an increment has the sign."""
    play(
        server,
        [
            ("ZADD z -0 a", 1),
            ("ZADD z INCR -0 b", Score("-0")),
            ("ZRANGE z 0 -1 WITHSCORES", Scored("a 0 b 0")),
            ("ZUNION 1 z WEIGHTS -1 WITHSCORES", Scored("a -0 b -0")),
            (("ZADD", "z", "1", "x" * 65), 1),
            ("ZADD z -0 c", 1),
            ("ZADD z CH 0 c", 0),
        ],
    )
    assert server.wire("ZSCORE z c") == (b",-0\r\n" if server.proto == 3 else b"$2\r\n-0\r\n")


@since("7.2", valkey="8.0")
def test_rank_with_score(server: Server) -> None:
    """ZRANK and ZREVRANK can return the score too."""
    server.given("ZADD z 1 a 2.5 b")
    play(
        server,
        [
            ("ZRANK z b WITHSCORE", [1, Score("2.5")]),
            ("ZREVRANK z b withscore", [0, Score("2.5")]),
            ("ZRANK z none WITHSCORE", None),
            ("ZREVRANK none a WITHSCORE", None),
            ("ZRANK z a FOO", SYNTAX),
        ],
    )


@pytest.mark.parametrize(
    ("lines", "encoding"),
    [
        (["ZADD x 1 a"], "listpack"),
        ([f"ZADD x 1 {'a' * 64}"], "listpack"),
        ([f"ZADD x 1 {'a' * 65}"], "skiplist"),
        (["ZADD x " + " ".join(f"{n} m{n}" for n in range(128))], "listpack"),
        (["ZADD x " + " ".join(f"{n} m{n}" for n in range(128)), "ZADD x 5 new"], "skiplist"),
        (["ZADD x " + " ".join(f"{n} m{n}" for n in range(129)), "ZREMRANGEBYRANK x 1 -1"], "skiplist"),
        (["ZADD x 1 a", f"ZADD x 1 {'a' * 65}", f"ZREM x {'a' * 65}"], "skiplist"),
        (["ZADD y " + " ".join(f"{n} m{n}" for n in range(129)), "ZRANGESTORE x y 0 5"], "listpack"),
        (["ZADD y " + " ".join(f"{n} m{n}" for n in range(129)), "ZUNIONSTORE x 1 y"], "skiplist"),
        (["ZADD y " + " ".join(f"{n} m{n}" for n in range(129)), "ZADD z 1 m1", "ZINTERSTORE x 2 y z"], "listpack"),
        (["ZADD y 1 a", f"ZADD y 1 {'a' * 65}", "ZUNIONSTORE x 1 y"], "skiplist"),
        (["ZADD y 1 a", "COPY y x"], "listpack"),
    ],
)
def test_encodings(server: Server, lines: list[str], encoding: str) -> None:
    """OBJECT ENCODING reports Redis's encoding of a sorted set."""
    server.given(*lines)
    server.expect("OBJECT ENCODING x", encoding)


def test_limits_of_encodings(server: Server) -> None:
    """zset-max-listpack-entries and zset-max-listpack-value apply to sorted sets that change afterwards."""
    server.config("zset-max-listpack-entries", 2)
    server.given("ZADD x 1 a 2 b", "ZADD y 1 a 2 b 3 c")
    server.config("zset-max-listpack-value", 3)
    server.given("ZADD z 1 abcd", "ZADD w 1 abc")
    forms = {"x": "listpack", "y": "skiplist", "z": "skiplist", "w": "listpack"}
    play(server, [(f"OBJECT ENCODING {key}", form) for key, form in forms.items()])


@pytest.mark.parametrize("size", [5, 300, 3000])
def test_scanning_and_random_members(server: Server, size: int) -> None:
    """ZSCAN returns every member with its score, in order if the set is small; ZRANDMEMBER returns distinct members."""
    server.run("ZADD", "z", *[word for number in range(size) for word in (number / 2, f"m{number}")])
    cursor, met, steps = b"0", {}, 0
    while True:
        cursor, words = server.run("ZSCAN", "z", cursor, "COUNT", "50")
        met |= dict(zip(words[::2], words[1::2], strict=True))
        steps += 1
        if cursor == b"0":
            break
    assert {member: float(score) for member, score in met.items()} == {b"m%d" % n: n / 2 for n in range(size)}
    assert list(met) == [b"m%d" % n for n in range(size)] if size == 5 else steps > 3
    drawn = server.run("ZRANDMEMBER", "z", size - 1)
    assert (len(drawn), len(set(drawn)), set(drawn) <= set(met)) == (size - 1, size - 1, True)
    assert set(server.run("ZRANDMEMBER", "z", size + 1)) == set(met)
    with_scores = server.run("ZRANDMEMBER", "z", -20, "WITHSCORES")
    pairs = with_scores if server.proto == 3 else list(zip(with_scores[::2], with_scores[1::2], strict=True))
    assert len(pairs) == 20
    assert all(float(score) == int(member[1:]) / 2 for member, score in pairs)


def test_arguments_of_scanning_and_random_members(server: Server) -> None:
    """ZSCAN and ZRANDMEMBER accept and reject the same arguments as in Redis."""
    server.given("ZADD z 1 a 2.5 b")
    play(
        server,
        [
            ("ZSCAN z 0 COUNT 1", ["0", ["a", "1", "b", "2.5"]]),
            ("ZSCAN z 0 MATCH b*", ["0", ["b", "2.5"]]),
            ("ZSCAN none 0", ["0", []]),
            ("ZSCAN z x", Error("ERR invalid cursor")),
            ("ZSCAN z 0 COUNT 0", SYNTAX),
            ("ZRANDMEMBER none", None),
            ("ZRANDMEMBER none 5", []),
            ("ZRANDMEMBER z 0", []),
            ("ZRANDMEMBER z x", NOT_AN_INTEGER),
            ("ZRANDMEMBER z 1 FOO", SYNTAX),
            ("ZRANDMEMBER z 1 WITHSCORES x", SYNTAX),
            ("ZRANDMEMBER z -4611686018427387904 WITHSCORES", Error("ERR value is out of range")),
            ("ZREM z b", 1),
            ("ZRANDMEMBER z", "a"),
            ("ZRANDMEMBER z -2", ["a", "a"]),
            ("ZRANDMEMBER z 2 WITHSCORES", Scored("a 1")),
        ],
    )


@since("8.0")
def test_a_large_zadd_keeps_negative_zeros(server: Server) -> None:
    """A ZADD with more members than a listpack holds keeps scores of -0, even if the sorted set was small."""
    server.given("ZADD z 1 a", "ZADD z " + " ".join(f"-0 m{number}" for number in range(200)))
    server.expect("ZSCORE z m0", Score("-0"))
    server.expect("ZSCORE z m199", Score("-0"))
