"""Random commands on sorted sets."""

from __future__ import annotations

from tests.differential.vocabulary import Family, Maker, Vocabulary, Words


def _zadd(g: Vocabulary) -> Words:
    if g.chance(0.03):
        first = g.number(0, 300)
        return ["ZADD", g.sorted_set(), *(word for n in range(first, first + 130) for word in (str(n % 9), f"m{n}"))]
    flags = [flag for flag in ("NX", "XX", "GT", "LT", "CH", "INCR") if g.chance(0.12)]
    pairs = [word for _ in range(1 if "INCR" in flags else g.number(1, 6)) for word in (g.score(), g.member())]
    return ["ZADD", g.sorted_set(), *flags, *pairs]


def _limit(g: Vocabulary) -> Words:
    return ["LIMIT", str(g.number(-1, 3)), str(g.number(-1, 4))] if g.chance(0.3) else []


def _zrange(g: Vocabulary) -> Words:
    scores = ["WITHSCORES"] if g.chance(0.5) else []
    name, ends, more = g.one(
        [
            ("ZRANGE", [g.rank(), g.rank()], ["REV"] if g.chance(0.3) else []),
            ("ZRANGE", [g.bound(), g.bound()], ["BYSCORE", *(["REV"] if g.chance(0.4) else []), *_limit(g)]),
            (
                "ZRANGE",
                [g.member_bound(), g.member_bound()],
                ["BYLEX", *(["REV"] if g.chance(0.4) else []), *_limit(g)],
            ),
            ("ZREVRANGE", [g.rank(), g.rank()], []),
            ("ZRANGEBYSCORE", [g.bound(), g.bound()], _limit(g)),
            ("ZREVRANGEBYSCORE", [g.bound(), g.bound()], _limit(g)),
            ("ZRANGEBYLEX", [g.member_bound(), g.member_bound()], _limit(g)),
            ("ZREVRANGEBYLEX", [g.member_bound(), g.member_bound()], _limit(g)),
        ]
    )
    if "LEX" in name or "BYLEX" in more:
        # All members of this set have the same score, because Redis otherwise does not define which ones are in a
        # range.
        return [name, "lex", *ends, *more]
    return [name, g.sorted_set(), *ends, *more, *scores]


def _zrangestore(g: Vocabulary) -> Words:
    ends = [g.bound(), g.bound()] if g.chance(0.5) else [g.rank(), g.rank()]
    by = ["BYSCORE", *_limit(g)] if g.chance(0.5) else []
    return ["ZRANGESTORE", g.sorted_set(), g.sorted_set(), *ends, *by, *(["REV"] if g.chance(0.3) else [])]


def _zpop(g: Vocabulary) -> Words:
    name = g.one(["ZPOPMIN", "ZPOPMAX"])
    if g.chance(0.5):
        return [name, g.sorted_set(), *([str(g.number(-1, 4))] if g.chance(0.6) else [])]
    count = ["COUNT", str(g.number(0, 4))] if g.chance(0.5) else []
    return ["ZMPOP", *g.sorted_sets(), g.one(["MIN", "MAX", "max"]), *count]


def _zremrange(g: Vocabulary) -> Words:
    return g.one(
        [
            ["ZREMRANGEBYRANK", g.sorted_set(), g.rank(), g.rank()],
            ["ZREMRANGEBYSCORE", g.sorted_set(), g.bound(), g.bound()],
            ["ZREMRANGEBYLEX", "lex", g.member_bound(), g.member_bound()],
        ]
    )


def _weighing(g: Vocabulary, count: int) -> Words:
    weights = ["WEIGHTS", *(g.one(["1", "2", "-1", "0.5", "inf", "0", "-0"]) for _ in range(count))]
    aggregate = ["AGGREGATE", g.one(["SUM", "MIN", "MAX", "min"])]
    return [*(weights if g.chance(0.3) else []), *(aggregate if g.chance(0.4) else [])]


def _zcombined(g: Vocabulary) -> Words:
    name, keys = g.one(["ZUNION", "ZINTER", "ZDIFF"]), g.sorted_sets()
    more = _weighing(g, len(keys) - 1) if name != "ZDIFF" or g.chance(0.05) else []
    if g.chance(0.5):
        return [f"{name}STORE", g.sorted_set(), *keys, *more]
    if name == "ZINTER" and g.chance(0.3):
        return ["ZINTERCARD", *keys, *(["LIMIT", str(g.number(-1, 3))] if g.chance(0.5) else [])]
    return [name, *keys, *more, *(["WITHSCORES"] if g.chance(0.7) else [])]


def _sorted_set_key(g: Vocabulary) -> Words:
    key, other = g.sorted_set(), g.sorted_set()
    return g.one(
        [
            ["DEL", key],
            ["RENAME", key, other],
            ["COPY", key, other, "REPLACE"],
            ["TYPE", key],
            ["OBJECT", "ENCODING", key],
            ["SADD", "set", g.member(), g.member()],
            ["SET", "w", "text"],
            ["EXPIRE", key, "100000"],
            ["TTL", key],
            ["ZSCAN", key, "0", "COUNT", "1000"],
            ["ZRANDMEMBER", key, "1000", *(["WITHSCORES"] if g.chance(0.5) else [])],
        ]
    )


def _on_sorted_set(*words: str) -> Maker:
    return lambda g: [words[0], g.sorted_set(), *words[1:]]


def _one_of(*names: str) -> Maker:
    """Return a maker of these commands on a sorted set and a member."""
    return lambda g: [g.one(list(names)), g.sorted_set(), g.member()]


SORTED_SET: Family = [
    (_zadd, 4),
    (lambda g: ["ZADD", "lex", *(word for _ in range(3) for word in ("0", g.member()))], 1),
    (lambda g: ["ZINCRBY", g.sorted_set(), g.score(), g.member()], 1),
    (lambda g: ["ZREM", g.sorted_set(), g.member(), g.member()], 1),
    (_one_of("ZSCORE", "ZMSCORE", "ZRANK", "ZREVRANK"), 1.5),
    (lambda g: ["ZMSCORE", g.sorted_set(), g.member(), g.member()], 0.3),
    (_on_sorted_set("ZCARD"), 0.5),
    (lambda g: ["ZCOUNT", g.sorted_set(), g.bound(), g.bound()], 1),
    (lambda g: ["ZLEXCOUNT", "lex", g.member_bound(), g.member_bound()], 0.5),
    (_zrange, 4),
    (_zrangestore, 1),
    (_zpop, 1.5),
    (_zremrange, 0.7),
    (_zcombined, 3),
    (_sorted_set_key, 2),
]

NEWER: Family = [
    (lambda g: [g.one(["ZRANK", "ZREVRANK"]), g.sorted_set(), g.member(), g.one(["WITHSCORE", "withscore"])], 1),
]
