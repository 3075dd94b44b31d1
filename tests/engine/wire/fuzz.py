"""Fuzz test of the parsers. ``make fuzz`` tries a million inputs.

An input is random bytes that resemble the protocol, or modified requests and pipelines of XADD. For each input the fast
path gives the result of the reference parser, at once and in pieces of every size. An untrusted client is read one
command at a time. A run of XADDs that `engine.wire.bulk.Scanner` accepts has the commands of the input. Only protocol
errors occur, and no more is stored than was sent. A seed and a number identify an input permanently.
"""

from __future__ import annotations

import random
import resource

from engine.wire.bulk import Scanner
from engine.wire.parser import RequestParser

MAX_BULK = 1 << 20
#: Maximum growth of the process over any number of inputs, in megabytes.
GROWTH_MB = 64
_TOKENS = (
    b"\r\n",
    b"\r",
    b"\n",
    b"*",
    b"$",
    b"*1\r\n",
    b"*3\r\n",
    b"$-1\r\n",
    b"$0\r\n\r\n",
    b"$1\r\na\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"$4\r\nXADD\r\n",
    b"$1\r\n*\r\n",
    b"%1\r\n",
    b"~1\r\n",
    b">1\r\n",
    b"+OK\r\n",
    b":1\r\n",
    b"_\r\n",
    b"(1\r\n",
    b"=5\r\ntxt:a\r\n",
    b"|1\r\n",
    b"#t\r\n",
    b",1.5\r\n",
    b"PING\r\n",
    b"SET \"a b\" 'c'\r\n",
    b'"',
    b"'",
    b"\\x41",
    b" ",
    b"\0",
    b"99999999999",
    b"$1048577\r\n",
    b"*2147483648\r\n",
    b"*10000\r\n",
    b"*1000000\r\n",
    b"00",
    b"-0",
    b"+1",
)
_WORDS = (
    b"",
    b"a",
    b"XADD",
    b"xadd",
    b"*",
    b"1-1",
    b"MAXLEN",
    b"~",
    b"=",
    b"10",
    b"key",
    b"\r\n",
    b"$3\r\nabc\r\n",
    b"\xff\0",
    b"x" * 60,
    b"v" * 300,
)
#: Words without line ends. A word with a line end would end a run of XADDs.
_PLAIN_WORDS = tuple(word for word in _WORDS if b"\r" not in word)


class Scalar(RequestParser):
    """The reference parser, without the fast path."""

    def _by_hiredis(self, data: bytes, start: int, commands: list[list[bytes]]) -> int:
        return start


def written(argv: list[bytes]) -> bytes:
    """Return a command's bytes."""
    return b"*%d\r\n" % len(argv) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in argv)


class Inputs:
    """Random inputs, each identified by the seed and a number."""

    def __init__(self, seed: str) -> None:
        self._seed = seed

    def make(self, number: int) -> tuple[bytes, random.Random]:
        """Return the input's bytes, and the random generator for cutting them."""
        chance = random.Random(f"{self._seed}/{number}")
        kind = chance.random()
        if kind < 0.15:
            data = chance.randbytes(chance.randrange(120))
        elif kind < 0.4:
            data = b"".join(chance.choices(_TOKENS, k=chance.randrange(1, 14)))
        elif kind < 0.7:
            commands = [chance.choices(_WORDS, k=chance.randrange(1, 8)) for _ in range(chance.randrange(1, 6))]
            data = self._changed(b"".join(map(written, commands)), chance)
        else:
            data = self._adds(chance)
            data = self._changed(data, chance) if chance.random() < 0.7 else data
        return data, chance

    @staticmethod
    def _adds(chance: random.Random) -> bytes:
        """Return a pipeline of XADDs, mostly of one form."""
        keys = [b"key"] if chance.random() < 0.7 else [b"key", b"k2"]
        stars = 1.0 if chance.random() < 0.7 else 0.8
        options: list[bytes] = chance.choice(([], [], [b"MAXLEN", b"10"], [b"MAXLEN", b"~", b"99"], [b"NOMKSTREAM"]))
        words = _WORDS if chance.random() < 0.3 else _PLAIN_WORDS
        fields = chance.randrange(1, 4)
        count = 90 if chance.random() < 0.04 else chance.randrange(1, 10)
        out = []
        for row in range(count):
            entry_id = b"*" if chance.random() < stars else b"%d-%d" % (row, chance.randrange(3))
            body = [chance.choice(words) for _ in range(2 * fields)]
            out.append(written([b"XADD", chance.choice(keys), *options, entry_id, *body]))
        return b"".join(out)

    @staticmethod
    def _changed(data: bytes, chance: random.Random) -> bytes:
        """Return the data with up to three small changes."""
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(5):
                case 0:
                    data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
                case 1:
                    data = data[:at] + data[at + chance.randrange(1, 6) :]
                case 2:
                    data = data[:at] + chance.choice(_TOKENS) + data[at:]
                case 3:
                    end = at + chance.randrange(40)
                    data = data[:end] + data[at:]
                case _:
                    data = data[:at]
        return data


def parse(parser: RequestParser, pieces: list[bytes]) -> tuple[list[list[bytes]], bytes | None]:
    """Feed pieces; return commands and error. Check that no more is stored than was fed."""
    commands: list[list[bytes]] = []
    fed = 0
    for piece in pieces:
        fed += len(piece)
        if parser.trusted:
            commands += parser.parse(piece)
        rest = b"" if parser.trusted else piece
        while rest:
            found, rest = parser.parse_one(rest)
            assert len(found) <= 1, "an untrusted client is read one command at a time"
            commands += found
        assert parser.buffered <= fed, "more is stored than was sent"
    return commands, parser.error


def cut(data: bytes, chance: random.Random) -> list[bytes]:
    """Return the data in pieces of one size or of random sizes."""
    if chance.random() < 0.5:
        size = chance.choice((1, 2, 3, 7, 16, 64))
        return [data[at : at + size] for at in range(0, len(data), size)]
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(1, 6)))
    return [data[low:high] for low, high in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def check(data: bytes, chance: random.Random) -> None:
    """Check all properties of one input."""
    expected = parse(Scalar(MAX_BULK), [data])
    assert parse(RequestParser(MAX_BULK), [data]) == expected, "the fast path differs"
    assert parse(RequestParser(MAX_BULK), cut(data, chance)) == expected, (
        "parsing pieces differs from parsing the whole"
    )
    strict = RequestParser(MAX_BULK)
    strict.trusted = False
    commands, error = parse(strict, cut(data, chance))
    assert commands == expected[0][: len(commands)], "parsing one by one gives other commands"
    assert error is not None or commands == expected[0], "parsing one by one loses commands"
    run = Scanner(patience=0).scan(data)
    if run is not None:
        parser = Scalar(MAX_BULK)
        assert parser.parse(data[: run.end]) == list(run.commands()), "a run has other commands than its bytes"
        assert parser.at_boundary, "a run ends within a command"
        assert parser.error is None, "a run contains an error"
        assert len(run.bodies) == len(run.sizes) == run.count
        assert list(map(len, run.bodies)) == list(run.sizes)


def fuzz(seed: str, inputs: int) -> None:
    """Check this number of inputs; the error of the first failure names its input."""
    source = Inputs(seed)
    for number in range(inputs):
        data, chance = source.make(number)
        try:
            check(data, chance)
        except Exception as error:
            raise AssertionError(f"input {seed}/{number}: {error!r}\n{data!r}") from error


def memory_mb() -> float:
    """Return the peak memory of the process in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
