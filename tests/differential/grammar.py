"""Random sequences of commands. A sequence is a list of steps (client, words); it follows from the random source.

IDs are small numbers that mostly grow, so that ranges, deletions and claims hit; times are either now or far away from
every threshold, so that no comparison depends on a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.differential import values
from tests.differential.scripts import Scripts

Words = list[str]
Step = tuple[int, tuple[str, ...]]

KEYS = ["s", "s", "s", "t", "t", "u"]
GROUPS = ["g", "g", "g", "h"]
CONSUMERS = ["a", "a", "b", "b", "c"]
#: Idle times and thresholds: zero, or so large that a slow run changes nothing.
MIN_IDLES = ["0", "0", "0", "500000", "2000000000", "-7"]
IDLES = ["0", "1000000", "3000000000", "-1"]
TIMES = ["1", "1000000", "-3", "99999999999999"]
NOISE = [
    "",
    "0",
    "1",
    "-1",
    "x",
    "*",
    "$",
    "-",
    ">",
    "(",
    "(1",
    "1-",
    "1-1",
    "9-*",
    "18446744073709551615",
    "COUNT",
    "STREAMS",
    "MAXLEN",
    "MINID",
    "~",
    "=",
    "LIMIT",
    "GROUP",
    "JUSTID",
    "FORCE",
    "IDLE",
    "TIME",
    "NOACK",
    "1.5",
    " 1",
    "9223372036854775808",
    "-9223372036854775808",
    "01",
    "g",
    "a",
    "s",
    "18446744073709551615-18446744073709551615",
]

#: Keys of sorted sets, and of a set.
SORTED_SETS = ["z", "z", "z", "y", "y", "w", "set"]
SCORES = ["0", "0", "1", "1", "2", "3", "-1", "1.5", "-0", "7", "0.1", "1e20", "3e-7", "inf", "-inf", "+5", "1e2"]
MEMBERS = ["a", "a", "b", "b", "c", "d", "e", "ab", "", "17", "x" * 70]


#: With another word they would wait, or leave more to chance.
_NOT_CHANGED = {"BLPOP", "BRPOP", "BLMPOP", "SPOP", "SRANDMEMBER", "HRANDFIELD", "SORT", "SORT_RO", "EVAL", "HSETEX"}


class Grammar:
    """Makes one sequence. ``families`` are the kinds of commands it may use.

    A third of the sequences are ``plain``: no entry is deleted and no counter given by hand, so that what groups have
    read can be compared with releases whose rules for it differ after that.
    """

    def __init__(self, random: Random, families: set[str]) -> None:
        self._random = random
        self.scripts = Scripts(random)
        self.values = values.Values(random)
        self._top = 0
        self.plain = random.random() < 0.33
        self.transactions = "transaction" in families
        self._streams = not families.isdisjoint({"stream", "group", "newer"})
        commands = [item for family, items in _FAMILIES.items() if family in families for item in items]
        self._makers = [maker for maker, _ in commands]
        self._weights = [weight for _, weight in commands]

    def sequence(self, length: int) -> list[Step]:
        """``length`` steps, most of them by the first of two clients."""
        client = 0
        # Most groups exist from the beginning, so that few commands find nothing to act on.
        groups = [(key, group) for key in sorted(set(KEYS)) for group in sorted(set(GROUPS)) if self.chance(0.7)]
        groups = groups if self._streams else []
        steps: list[Step] = [(0, ("XGROUP", "CREATE", key, group, "$", "MKSTREAM")) for key, group in groups]
        while len(steps) < length:
            if self._random.random() < 0.06:
                client = 1 - client
            if self._streams and self._random.random() < 0.01:
                steps += self._burst(client)
            elif self.transactions and self._random.random() < 0.04:
                steps += self._transaction(client)
            else:
                steps.append((client, self._command()))
        return steps

    def _command(self) -> tuple[str, ...]:
        maker = self._random.choices(self._makers, self._weights)[0]
        return tuple(self._noisy(maker(self)))

    def _burst(self, client: int) -> list[Step]:
        """Many XADDs of one shape, with few of another between them: what a producer's pipeline looks like."""
        key, fields = self.key(), [self.one(["f", "g"]), self.one(["f", "h"])]
        steps: list[Step] = []
        for _ in range(self.number(2, 300)):
            self._top += self.number(1, 2)
            entry_id = self.id() if self.chance(0.005) else f"{self._top // 4}-{self._top % 4}"
            values = [self.one(["1", "", "a\r\nb", "$1\r\nx", str(self._top)]) for _ in fields]
            words = ["XADD", key, entry_id, fields[0], values[0], fields[1], values[1]]
            steps.append((client, tuple(words[:-2] if self.chance(0.01) else words)))
        return steps

    def _transaction(self, client: int) -> list[Step]:
        """A few commands in MULTI and EXEC, some with WATCH before, some with the other client in between."""
        steps: list[Step] = [(client, ("WATCH", self.key()))] if self.chance(0.4) else []
        if steps and self.chance(0.3):
            steps.append((1 - client, self._command()))
        steps.append((client, ("MULTI",)))
        inside = [self._command() for _ in range(self.number(1, 6))]
        steps += [(1 - client if self.chance(0.1) else client, words) for words in inside]
        return [*steps, (client, ("EXEC",) if self.chance(0.9) else ("DISCARD",))]

    def _noisy(self, words: Words) -> Words:
        """Now and then a command that is not quite right."""
        if self._random.random() > 0.08 or words[1:2] == ["lex"] or words[0] in _NOT_CHANGED:
            return words
        words = list(words)
        place = self._random.randrange(len(words))
        what = self._random.randrange(5)
        if what == 0 and len(words) > 1:
            del words[place]
        elif what == 1:
            words.insert(place, words[place])
        elif what == 2 and place > 0:
            words[place] = self._random.choice(NOISE)
        elif what == 3:
            words.insert(max(place, 1), self._random.choice(NOISE))
        else:
            words[place] = words[place].swapcase()
        return words

    # -- words ------------------------------------------------------------------------------------------------------

    def one(self, words: list[str]) -> str:
        return self._random.choice(words)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def score(self) -> str:
        return (
            self.one(SCORES) if self.chance(0.97) else self.one(["x", "nan", "", "0x10", "1e400", "1e-400", "5e-324"])
        )

    def bound(self) -> str:
        return ("(" if self.chance(0.3) else "") + (
            self.one(SCORES) if self.chance(0.96) else self.one(["x", "nan", ""])
        )

    def member(self) -> str:
        return self.one(MEMBERS) if self.chance(0.9) else str(self.number(0, 99))

    def member_bound(self) -> str:
        return self.one(["-", "+", "[", "(", "["]) if self.chance(0.4) else self.one(["[", "("]) + self.member()

    def rank(self) -> str:
        return str(self.number(-6, 9)) if self.chance(0.95) else self.one([str(1 << 62), str(-1 << 63), str(1 << 63)])

    def sorted_set(self) -> str:
        return self.one(SORTED_SETS)

    def sorted_sets(self) -> Words:
        """How many, and their keys."""
        keys = [self.sorted_set() for _ in range(self.number(1, 3))]
        return [str(len(keys) if self.chance(0.97) else self.number(-1, 4)), *keys]

    def key(self) -> str:
        return self.one(KEYS)

    def next_id(self) -> str:
        """An ID that is mostly greater than all before it."""
        if self.chance(0.1):
            return self.id()
        if self.chance(0.12):
            return f"{self._top // 4}-*"
        self._top += self.number(1, 5)
        return f"{self._top // 4}-{self._top % 4}"

    def id(self) -> str:
        """An ID somewhere among those that exist."""
        point = self.number(0, self._top + 2)
        return f"{point // 4}" if self.chance(0.2) else f"{point // 4}-{point % 4}"

    def ids(self, most: int = 5) -> Words:
        return [self.id() for _ in range(self.number(1, most))]

    def low(self) -> str:
        return "-" if self.chance(0.3) else ("(" if self.chance(0.2) else "") + self.id()

    def high(self) -> str:
        return "+" if self.chance(0.3) else ("(" if self.chance(0.2) else "") + self.id()

    def count(self, probability: float = 0.5) -> Words:
        if not self.chance(probability):
            return []
        return [self.one(["COUNT", "count"]), str(self.number(1, 6) if self.chance(0.9) else self.number(-1, 0))]

    def fields(self) -> Words:
        return [
            word
            for n in range(self.number(1, 3))
            for word in (self.one(["f", "g", "", "field"]), self.one(["1", "-17", "", "value", "a\r\nb", "x" * 70]))
        ]

    def trim(self) -> Words:
        """A strategy with its threshold; nodes hold few entries, so ``~`` finds something to do."""
        strategy = self.one(["MAXLEN", "MINID"])
        threshold = str(self.number(0, 12)) if strategy == "MAXLEN" else self.id()
        words = [strategy, *([self.one(["~", "~", "="])] if self.chance(0.6) else []), threshold]
        if self.chance(0.5 if "~" in words else 0.05):
            words += ["LIMIT", str(self.number(0, 12))]
        return words


def _xadd(g: Grammar) -> Words:
    trim = g.trim() if not g.plain and g.chance(0.15) else []
    options = [*(["NOMKSTREAM"] if g.chance(0.1) else []), *trim]
    return ["XADD", g.key(), *options, "*" if g.chance(0.008) else g.next_id(), *g.fields()]


def _xtrim(g: Grammar) -> Words:
    return ["XLEN", g.key()] if g.plain else ["XTRIM", g.key(), *g.trim()]


def _xdel(g: Grammar) -> Words:
    return ["XLEN", g.key()] if g.plain else ["XDEL", g.key(), *g.ids()]


def _xread(g: Grammar) -> Words:
    keys = [g.key() for _ in range(g.number(1, 3))]
    return ["XREAD", *g.count(), "STREAMS", *keys, *("$" if g.chance(0.1) else g.id() for _ in keys)]


def _xsetid(g: Grammar) -> Words:
    options = []
    if g.plain:
        return ["XLEN", g.key()]
    if g.chance(0.4):
        options = ["ENTRIESADDED", str(g.number(0, 40)), "MAXDELETEDID", g.one(["0-0", g.id()])]
    return ["XSETID", g.key(), g.next_id() if g.chance(0.8) else g.id(), *options]


def _xinfo_stream(g: Grammar) -> Words:
    return ["XINFO", "STREAM", g.key(), *(["FULL", *g.count()] if g.chance(0.5) else [])]


def _xreadgroup(g: Grammar) -> Words:
    keys = [g.key() for _ in range(g.number(1, 2))]
    noack = ["NOACK"] if g.chance(0.15) else []
    places = [">" if g.chance(0.7) else g.one(["0", g.id()]) for _ in keys]
    return ["XREADGROUP", "GROUP", g.one(GROUPS), g.one(CONSUMERS), *g.count(), *noack, "STREAMS", *keys, *places]


def _xpending(g: Grammar) -> Words:
    if g.chance(0.4):
        return ["XPENDING", g.key(), g.one(GROUPS)]
    idle = ["IDLE", g.one(MIN_IDLES)] if g.chance(0.3) else []
    consumer = [g.one(CONSUMERS)] if g.chance(0.4) else []
    return ["XPENDING", g.key(), g.one(GROUPS), *idle, g.low(), g.high(), str(g.number(-1, 8)), *consumer]


def _xclaim(g: Grammar) -> Words:
    options: Words = []
    for _ in range(g.number(0, 3)):
        options += g._random.choice(
            [
                ["IDLE", g.one(IDLES)],
                ["TIME", g.one(TIMES)],
                ["RETRYCOUNT", str(g.number(-1, 5))],
                ["FORCE"],
                ["FORCE"],
                ["JUSTID"],
                ["LASTID", g.id()],
            ]
        )
    return ["XCLAIM", g.key(), g.one(GROUPS), g.one(CONSUMERS), g.one(MIN_IDLES), *g.ids(), *options]


def _xautoclaim(g: Grammar) -> Words:
    justid = ["JUSTID"] if g.chance(0.3) else []
    return ["XAUTOCLAIM", g.key(), g.one(GROUPS), g.one(CONSUMERS), g.one(MIN_IDLES), g.low(), *g.count(), *justid]


def _xgroup_create(g: Grammar) -> Words:
    options = [*(["MKSTREAM"] if g.chance(0.4) else []), *_entries_read(g)]
    return ["XGROUP", "CREATE", g.key(), g.one(GROUPS), g.one(["0", "$", g.id()]), *options]


def _entries_read(g: Grammar) -> Words:
    # A count beyond the entries that were added is capped by newer releases only, so it is left out.
    return ["ENTRIESREAD", g.one(["-1", "0", "0", "-2"])] if not g.plain and g.chance(0.2) else []


def _xgroup_setid(g: Grammar) -> Words:
    return ["XGROUP", "SETID", g.key(), g.one(GROUPS), g.one(["0", "$", g.id(), "-"]), *_entries_read(g)]


def _consumer(subcommand: str) -> Callable[[Grammar], Words]:
    return lambda g: ["XGROUP", subcommand, g.key(), g.one(GROUPS), g.one(CONSUMERS)]


def _policy(g: Grammar) -> Words:
    return [g.one(["KEEPREF", "DELREF", "ACKED"])] if g.chance(0.7) else []


def _newer_xadd(g: Grammar) -> Words:
    producer, iid = g.one(["p", "q"]), g.one(["1", "2", "3"])
    idempotent = g._random.choice([["IDMP", producer, iid], ["IDMPAUTO", producer], []])
    trim = [*g.trim(), *_policy(g)] if g.chance(0.3) else []
    return ["XADD", g.key(), *idempotent, *trim, "*" if idempotent else g.next_id(), "f", g.one(["1", "2"])]


def _newer_read(g: Grammar) -> Words:
    limits = [word for name in ("MAXCOUNT", "MAXSIZE") if g.chance(0.3) for word in (name, str(g.number(1, 200)))]
    claim = ["CLAIM", g.one(["0", "0", "500000"])] if g.chance(0.6) else []
    words = ["XREADGROUP", "GROUP", g.one(GROUPS), g.one(CONSUMERS), *limits, *claim]
    return [*words, "STREAMS", g.key(), g.key(), ">", ">" if g.chance(0.8) else "0"]


def _xnack(g: Grammar) -> Words:
    some = g.ids()
    options = [*(["RETRYCOUNT", str(g.number(0, 5))] if g.chance(0.3) else []), *(["FORCE"] if g.chance(0.4) else [])]
    mode = g.one(["SILENT", "FAIL", "FATAL"])
    return ["XNACK", g.key(), g.one(GROUPS), mode, "IDS", str(len(some)), *some, *options]


def _with_policy(*words: str) -> Callable[[Grammar], Words]:
    def make(g: Grammar) -> Words:
        some = g.ids()
        group = [g.one(GROUPS)] if words[0] == "XACKDEL" else []
        return [words[0], g.key(), *group, *_policy(g), "IDS", str(len(some)), *some]

    return make


def _plain(*words: str) -> Callable[[Grammar], Words]:
    return lambda g: list(words)


def _on_key(*words: str) -> Callable[[Grammar], Words]:
    return lambda g: [words[0], g.key(), *words[1:]]


def _zadd(g: Grammar) -> Words:
    if g.chance(0.03):
        first = g.number(0, 300)
        return ["ZADD", g.sorted_set(), *(word for n in range(first, first + 130) for word in (str(n % 9), f"m{n}"))]
    flags = [flag for flag in ("NX", "XX", "GT", "LT", "CH", "INCR") if g.chance(0.12)]
    pairs = [word for _ in range(1 if "INCR" in flags else g.number(1, 6)) for word in (g.score(), g.member())]
    return ["ZADD", g.sorted_set(), *flags, *pairs]


def _limit(g: Grammar) -> Words:
    return ["LIMIT", str(g.number(-1, 3)), str(g.number(-1, 4))] if g.chance(0.3) else []


def _zrange(g: Grammar) -> Words:
    scores = ["WITHSCORES"] if g.chance(0.5) else []
    name, ends, more = g._random.choice(
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
        # (All members of this one have the same score: otherwise Redis leaves it open which ones are found.)
        return [name, "lex", *ends, *more]
    return [name, g.sorted_set(), *ends, *more, *scores]


def _zrangestore(g: Grammar) -> Words:
    ends = [g.bound(), g.bound()] if g.chance(0.5) else [g.rank(), g.rank()]
    by = ["BYSCORE", *_limit(g)] if g.chance(0.5) else []
    return ["ZRANGESTORE", g.sorted_set(), g.sorted_set(), *ends, *by, *(["REV"] if g.chance(0.3) else [])]


def _zpop(g: Grammar) -> Words:
    name = g.one(["ZPOPMIN", "ZPOPMAX"])
    if g.chance(0.5):
        return [name, g.sorted_set(), *([str(g.number(-1, 4))] if g.chance(0.6) else [])]
    count = ["COUNT", str(g.number(0, 4))] if g.chance(0.5) else []
    return ["ZMPOP", *g.sorted_sets(), g.one(["MIN", "MAX", "max"]), *count]


def _zremrange(g: Grammar) -> Words:
    return g._random.choice(
        [
            ["ZREMRANGEBYRANK", g.sorted_set(), g.rank(), g.rank()],
            ["ZREMRANGEBYSCORE", g.sorted_set(), g.bound(), g.bound()],
            ["ZREMRANGEBYLEX", "lex", g.member_bound(), g.member_bound()],
        ]
    )


def _weighing(g: Grammar, count: int) -> Words:
    weights = ["WEIGHTS", *(g.one(["1", "2", "-1", "0.5", "inf", "0", "-0"]) for _ in range(count))]
    aggregate = ["AGGREGATE", g.one(["SUM", "MIN", "MAX", "min"])]
    return [*(weights if g.chance(0.3) else []), *(aggregate if g.chance(0.4) else [])]


def _zcombined(g: Grammar) -> Words:
    what, keys = g.one(["ZUNION", "ZINTER", "ZDIFF"]), g.sorted_sets()
    more = _weighing(g, len(keys) - 1) if what != "ZDIFF" or g.chance(0.05) else []
    if g.chance(0.5):
        return [f"{what}STORE", g.sorted_set(), *keys, *more]
    if what == "ZINTER" and g.chance(0.3):
        return ["ZINTERCARD", *keys, *(["LIMIT", str(g.number(-1, 3))] if g.chance(0.5) else [])]
    return [what, *keys, *more, *(["WITHSCORES"] if g.chance(0.7) else [])]


def _sorted_set_key(g: Grammar) -> Words:
    key, other = g.sorted_set(), g.sorted_set()
    return g._random.choice(
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


def _on_sorted_set(*words: str) -> Callable[[Grammar], Words]:
    return lambda g: [words[0], g.sorted_set(), *words[1:]]


def _one_of(*names: str) -> Callable[[Grammar], Words]:
    """A command on a sorted set and a member."""
    return lambda g: [g.one(list(names)), g.sorted_set(), g.member()]


_FAMILIES: dict[str, list[tuple[Callable[[Grammar], Words], float]]] = {
    "stream": [
        (_xadd, 30),
        (lambda g: ["XLEN", g.key()], 2),
        (lambda g: ["XRANGE", g.key(), g.low(), g.high(), *g.count()], 5),
        (lambda g: ["XREVRANGE", g.key(), g.high(), g.low(), *g.count()], 4),
        (_xread, 4),
        (_xdel, 5),
        (_xtrim, 4),
        (_xsetid, 1),
        (_xinfo_stream, 5),
    ],
    "group": [
        (_xgroup_create, 7),
        (_xgroup_setid, 2),
        (_consumer("CREATECONSUMER"), 2),
        (_consumer("DELCONSUMER"), 1.5),
        (lambda g: ["XGROUP", "DESTROY", g.key(), g.one(GROUPS)], 0.7),
        (_xreadgroup, 16),
        (lambda g: ["XACK", g.key(), g.one(GROUPS), *g.ids()], 5),
        (_xpending, 6),
        (_xclaim, 6),
        (_xautoclaim, 5),
        (lambda g: ["XINFO", "GROUPS", g.key()], 4),
        (lambda g: ["XINFO", "CONSUMERS", g.key(), g.one(GROUPS)], 3),
    ],
    "key": [
        (lambda g: ["DEL", g.key()], 0.5),
        (lambda g: ["EXISTS", g.key(), g.key()], 0.5),
        (_on_key("TYPE"), 0.5),
        (lambda g: ["RENAME", g.key(), g.key()], 0.4),
        (lambda g: ["COPY", g.key(), g.key(), *(["REPLACE"] if g.chance(0.5) else [])], 0.6),
        (_on_key("SET", "text"), 0.1),
        (_on_key("HSET", "field", "value"), 0.1),
        (_on_key("PERSIST"), 0.2),
        (_on_key("EXPIRE", "100000"), 0.3),
        (_on_key("TTL"), 0.3),
        (_on_key("OBJECT"), 0.1),
        (lambda g: ["OBJECT", "ENCODING", g.key()], 0.3),
        (_plain("DBSIZE"), 0.3),
        (_plain("FLUSHDB"), 0.05),
        (lambda g: ["SELECT", g.one(["0", "0", "0", "1"])], 0.3),
        (lambda g: ["SET", "counter", g.one(["1", "x", "41"])], 0.3),
        (_plain("INCR", "counter"), 0.3),
        (_plain("GET", "counter"), 0.2),
        (lambda g: ["HSET", "fence", g.one(["a", "b"]), g.one(["1", "2"])], 0.3),
        (_plain("HGETALL", "fence"), 0.3),
        (lambda g: ["HINCRBY", "fence", g.one(["a", "b"]), "5"], 0.2),
        (lambda g: ["HDEL", "fence", g.one(["a", "b"])], 0.2),
    ],
    "sorted_set": [
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
    ],
    "script": [
        (lambda g: g.scripts.command(), 4),
        (lambda g: ["SCRIPT", "EXISTS", "0" * 40], 0.1),
    ],
    "transaction": [
        (_plain("MULTI"), 0.05),
        (_plain("EXEC"), 0.3),
        (_plain("DISCARD"), 0.1),
        (lambda g: ["WATCH", g.key()], 0.5),
        (_plain("UNWATCH"), 0.2),
    ],
}


def _of_values(maker: values.Maker) -> Callable[[Grammar], Words]:
    return lambda g: maker(g.values)


for _name, _items in values.FAMILIES.items():
    _FAMILIES[_name] = [(_of_values(maker), weight) for maker, weight in _items]

#: What redis-server 7 has.
FAMILIES = tuple(_FAMILIES)

for _name, _items in values.NEWER_FAMILIES.items():
    _FAMILIES[_name] = [(_of_values(maker), weight) for maker, weight in _items]

_FAMILIES["newer"] = [
    (lambda g: [g.one(["ZRANK", "ZREVRANK"]), g.sorted_set(), g.member(), g.one(["WITHSCORE", "withscore"])], 1),
    (_newer_xadd, 12),
    (_newer_read, 8),
    (lambda g: ["XTRIM", g.key(), *g.trim(), *_policy(g)], 4),
    (_with_policy("XDELEX"), 5),
    (_with_policy("XACKDEL"), 5),
    (_xnack, 5),
    (lambda g: ["XCFGSET", g.key(), "IDMP-MAXSIZE", str(g.number(1, 3))], 0.3),
    (lambda g: ["XIDMPRECORD", g.key(), g.one(["p", "q"]), g.one(["1", "2", "9"]), g.id()], 1),
]
