"""Random commands on other types than streams: strings, hashes, and keys of all types.

Each family is a table of makers with weights, as in the grammar. There are few keys, so that a command sometimes meets
a value of another type. Random fields are drawn only in numbers that make the result deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import xxhash

from tests import servers

Words = list[str]
Maker = Callable[["Values"], Words]

#: The keys of each type.
NAMES = {
    "string": ["v", "w", "w", "m"],
    "hash": ["h", "h", "i", "j"],
}
ALL = [name for names in NAMES.values() for name in names]
TEXTS = ["a", "a", "b", "b", "c", "d", "1", "2", "-3", "17", "", "x" * 70, "1.5", "0x1A", "é", "a\r\nb"]
NUMBERS = ["0", "1", "1", "2", "3", "-1", "-2", "5", "100", "9223372036854775807", "-9223372036854775808"]
ODD_NUMBERS = ["x", "", "1.5", "9223372036854775808", " 1", "01", "1e2", "-0", "18446744073709551616"]
FLOATS = ["0.1", "1e300", "-7.25", "3", "1e-10", "-0", "5."]
ODD_FLOATS = ["inf", "-inf", "nan", "x", "", "1e5000", "0x10", " 1"]
#: Times to live: long, expired, and beyond every clock.
SECONDS = ["100000", "200000", "300000", "100000"]
ODD_SECONDS = ["0", "-1", "x", "", "9223372036854775807", "9223372036854776", "9223372036854775", "70368744177663"]
#: Times far in the past and in the future, in seconds.
MOMENTS = ["4000000000", "5000000000", "6000000000", "4000000000"]
ODD_MOMENTS = ["1", "0", "-1", "x", "1000000000000000000", "70368744177", "70368744178"]
GLOBS = ["*", "a*", "?", "[^a]", "1", "[", "\\*", "**x*"]
DIGESTS = [xxhash.xxh3_64_hexdigest(text.encode()) for text in TEXTS[:6]]


class Values:
    """A generator of commands with a random source."""

    def __init__(self, random: Random) -> None:
        self.random = random

    # -- words ------------------------------------------------------------------------------------------------------

    def one(self, words: list[str]) -> str:
        return self.random.choice(words)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def key(self, kind: str) -> str:
        """Return a key of that type, rarely of another one."""
        return self.one(NAMES[kind] if self.chance(0.95) else ALL)

    def keys(self, kind: str, most: int = 3) -> Words:
        return [self.key(kind) for _ in range(self.random.randint(1, most))]

    def text(self) -> str:
        return self.one(TEXTS) if self.chance(0.9) else str(self.random.randint(-5, 40))

    def texts(self, most: int = 4) -> Words:
        return [self.text() for _ in range(self.random.randint(1, most))]

    def pairs(self, most: int = 3) -> Words:
        return [self.text() for _ in range(2 * self.random.randint(1, most))]

    def many(self, kind: str) -> Words:
        """Return enough words for Redis to use another encoding."""
        count = self.random.choice([60, 130, 520])
        first = self.random.randint(0, 200)
        return [f"{kind}{number}" for number in range(first, first + count)]

    def number(self) -> str:
        return self.one(NUMBERS) if self.chance(0.93) else self.one(ODD_NUMBERS)

    def float(self) -> str:
        return self.one(FLOATS) if self.chance(0.93) else self.one(ODD_FLOATS)

    def seconds(self) -> str:
        return self.one(SECONDS) if self.chance(0.85) else self.one(ODD_SECONDS)

    def moment(self) -> str:
        return self.one(MOMENTS) if self.chance(0.85) else self.one(ODD_MOMENTS)

    def expiry(self) -> Words:
        """Return an expiry option with a time."""
        name = self.one(["EX", "PX", "EXAT", "PXAT", "ex"])
        if name == "PXAT":
            return [name, self.moment() + "000"]
        return [name, self.moment() if name == "EXAT" else self.seconds() + ("000" if name == "PX" else "")]

    def some(self, *options: Words, probability: float = 0.25) -> Words:
        """Return some of these options in any order, rarely with one of them twice."""
        chosen = [option for option in options if self.chance(probability)]
        if chosen and self.chance(0.05):
            chosen.append(self.random.choice(chosen))
        self.random.shuffle(chosen)
        return [word for option in chosen for word in option]


# -- strings ----------------------------------------------------------------------------------------------------------


def _set(v: Values) -> Words:
    options = v.some(["NX"], ["XX"], ["GET"], ["KEEPTTL"], v.expiry(), probability=0.18)
    return ["SET", v.key("string"), v.text(), *options]


def _string(v: Values) -> Words:
    key = v.key("string")
    return v.random.choice(
        [
            ["GET", key],
            ["GETSET", key, v.text()],
            ["GETDEL", key],
            ["GETEX", key, *v.some(["PERSIST"], v.expiry(), probability=0.5)],
            ["SETNX", key, v.text()],
            ["STRLEN", key],
            ["APPEND", key, v.text()],
            [v.one(["INCR", "DECR"]), key],
            [v.one(["INCRBY", "DECRBY"]), key, v.number()],
            ["SET", key, v.one(["1", "41", "-9223372036854775808", "3.0e3"])],
            ["MGET", *v.keys("string")],
            ["MSET", *(word for name in v.keys("string") for word in (name, v.text()))],
        ]
    )


def _conditional(v: Values) -> Words:
    name = v.one(["IFEQ", "IFNE", "IFDEQ", "IFDNE", "ifeq"])
    condition = [name, v.one([*DIGESTS, "0" * 16, "x", DIGESTS[0].upper()]) if "D" in name else v.text()]
    # 8.6 replies twice to GET with an invalid digest.
    get = ["GET"] if len(condition[1]) == 16 or "D" not in name else []
    options = v.some(condition, condition, get, ["KEEPTTL"], v.expiry())
    return ["SET", v.key("string"), v.text() if v.chance(0.8) else v.one(TEXTS[:6]), *options]


# -- hashes -----------------------------------------------------------------------------------------------------------


def _hset(v: Values) -> Words:
    if v.chance(0.02):
        return ["HSET", v.key("hash"), *(word for name in v.many("f") for word in (name, "1"))]
    return [v.one(["HSET", "HSET", "HMSET"]), v.key("hash"), *v.pairs()]


def _hash(v: Values) -> Words:
    key = v.key("hash")
    return v.random.choice(
        [
            [v.one(["HGET", "HEXISTS", "HSTRLEN"]), key, v.text()],
            ["HMGET", key, *v.texts()],
            ["HDEL", key, *v.texts()],
            [v.one(["HGETALL", "HKEYS", "HVALS", "HLEN"]), key],
            ["HSETNX", key, v.text(), v.text()],
            ["HINCRBY", key, v.text(), v.number()],
            ["HINCRBYFLOAT", key, v.text(), v.float()],
            ["HRANDFIELD", key, "1000", *(["WITHVALUES"] if v.chance(0.5) else [])],
            ["HRANDFIELD", key, v.one(["0", "x", "9223372036854775808", "-9223372036854775808"])],
            ["HSCAN", key, "0", "COUNT", "10000", *(["MATCH", v.one(GLOBS)] if v.chance(0.5) else [])],
        ]
    )


# -- keys -------------------------------------------------------------------------------------------------------------


def _any_key(v: Values) -> Words:
    key, other = v.one(ALL), v.one(ALL)
    expire = v.one(["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"])
    time = (v.moment() if expire.endswith("AT") else v.seconds()) + ("000" if expire[0] == "P" else "")
    conditions = [["NX"], ["XX"], ["GT"], ["LT"], ["FOO"]] if expire.endswith("AT") else [["NX"], ["xx"]]
    return v.random.choice(
        [
            [v.one(["DEL", "UNLINK", "EXISTS", "TOUCH"]), key, other],
            ["TYPE", key],
            [v.one(["RENAME", "RENAMENX"]), key, other],
            ["COPY", key, other, *v.some(["REPLACE"], ["DB", v.one(["0", "1", "16"])])],
            ["MOVE", key, v.one(["0", "1", "16", "x"])],
            [expire, key, time, *v.some(*conditions, probability=0.15)],
            [v.one(["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "PERSIST"]), key],
            ["SCAN", "0", "COUNT", "10000", "TYPE", v.one([*NAMES, "stream", "none", "x"])],
            ["KEYS", v.one(GLOBS)],
        ]
    )


FAMILIES: dict[str, list[tuple[Maker, float]]] = {
    "string": [(_set, 2), (_string, 4)],
    "hash": [(_hset, 2), (_hash, 3)],
    "any_key": [
        (_any_key, 2),
        (lambda v: ["SWAPDB", v.one(["0", "1"]), v.one(["0", "1", "1", "16"])], 0.05),
    ],
}
#: Families that redis-server 7 does not have.
NEWER_FAMILIES: dict[str, list[tuple[Maker, float]]] = {}
if servers.redis_release().since("8.4"):
    NEWER_FAMILIES = {"conditional": [(_conditional, 2)]}
