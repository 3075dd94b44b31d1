"""Random sequences of commands: lists of steps (client, words) that follow from the random source.

The words are those of ``tests.differential.vocabulary``; this module combines them into commands, bursts and
transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.differential import streams, values
from tests.differential.vocabulary import GROUPS, KEYS, Vocabulary, Words

Step = tuple[int, tuple[str, ...]]

#: Words that replace valid words.
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

#: Commands in which another word would make the result random.
_NOT_CHANGED = {"HRANDFIELD"}


class Grammar(Vocabulary):
    """Makes one sequence; ``families`` are the kinds of commands that it may use.

    A third of the sequences are ``plain``: no entry is deleted and no counter is set explicitly. In these, entries-read
    can be compared with releases that compute it differently after a deletion.
    """

    def __init__(self, random: Random, families: set[str]) -> None:
        super().__init__(random)
        self.values = values.Values(random)
        self.transactions = "transaction" in families
        self._streams = not families.isdisjoint({"stream", "group", "newer"})
        commands = [item for family, items in _FAMILIES.items() if family in families for item in items]
        self._makers = [maker for maker, _ in commands]
        self._weights = [weight for _, weight in commands]

    def sequence(self, length: int) -> list[Step]:
        """Return ``length`` steps, most of them by the first of two clients."""
        client = 0
        # Most groups exist from the start, so that few commands act on missing groups.
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
        """Return many XADDs of one form with a few of another form between them, like a producer's pipeline."""
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
        """Return a few commands in MULTI and EXEC, some with WATCH before, some with the other client in between."""
        steps: list[Step] = [(client, ("WATCH", self.key()))] if self.chance(0.4) else []
        if steps and self.chance(0.3):
            steps.append((1 - client, self._command()))
        steps.append((client, ("MULTI",)))
        inside = [self._command() for _ in range(self.number(1, 6))]
        steps += [(1 - client if self.chance(0.1) else client, words) for words in inside]
        return [*steps, (client, ("EXEC",) if self.chance(0.9) else ("DISCARD",))]

    def _noisy(self, words: Words) -> Words:
        """Return the command, sometimes made invalid."""
        if self._random.random() > 0.08 or words[0] in _NOT_CHANGED:
            return words
        words = list(words)
        position = self._random.randrange(len(words))
        change = self._random.randrange(5)
        if change == 0 and len(words) > 1:
            del words[position]
        elif change == 1:
            words.insert(position, words[position])
        elif change == 2 and position > 0:
            words[position] = self._random.choice(NOISE)
        elif change == 3:
            words.insert(max(position, 1), self._random.choice(NOISE))
        else:
            words[position] = words[position].swapcase()
        return words


def _plain(*words: str) -> Callable[[Grammar], Words]:
    return lambda g: list(words)


def _on_key(*words: str) -> Callable[[Grammar], Words]:
    return lambda g: [words[0], g.key(), *words[1:]]


_FAMILIES: dict[str, list[tuple[Callable[[Grammar], Words], float]]] = {
    "stream": [*streams.STREAM],
    "group": [*streams.GROUP],
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

#: Commands of redis-server 7.
FAMILIES = tuple(_FAMILIES)

for _name, _items in values.NEWER_FAMILIES.items():
    _FAMILIES[_name] = [(_of_values(maker), weight) for maker, weight in _items]

_FAMILIES["newer"] = [*streams.NEWER]
