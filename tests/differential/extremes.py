"""Extreme numbers in every numeric argument of the command table, in commands made from their declared syntax.

`python -m tests.differential.extremes PORT PORT` prints the commands whose replies differ between two servers.
"""

# ruff: noqa: T201 - it reports on stdout

from __future__ import annotations

import sys
from collections.abc import Iterator

import redis

from engine.core import commands as _commands  # noqa: F401 - fills the command table
from engine.core.table.registry import Command, all_commands
from tests.harness.syntax import Argument, arguments

NUMBERS = (
    *("9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551616", "-1", "-0", "0"),
    *("1.5", "1e300", "inf", "-inf", "nan", "+1", " 1", "", "99999999999999999999999999", "2147483648"),
)
NUMERIC = {"integer", "double", "unix-time"}
#: Groups and commands that are left out, because their replies depend on the server or on chance, or never come.
LEFT_OUT_GROUPS = {"server", "connection", "cluster", "pubsub", "transactions"}
LEFT_OUT = {"wait", "scan", "hscan", "dump", "restore", "object|freq", "object|idletime"}
#: Commands that create a value of each type before each tested command.
SCENE = (
    *("SET string 10", "HSET hash f 10 g 2"),
    *("XADD stream 1-1 f v", "XGROUP CREATE stream g 0", "XADD stream 2-1 f v"),
)
KEYS = {"string": "string", "hash": "hash", "stream": "stream"}
WORDS = {"group": "g", "consumer": "c", "field": "f", "id": "1-1"}


def _words(argument: Argument, group: str) -> list[str]:
    """Return a plain form of an argument."""
    token = [argument.token] if argument.token else []
    if argument.kind == "pure-token":
        return token
    if argument.kind == "oneof":
        return token + _words(argument.parts[0], group)
    if argument.kind == "block":
        return token + [word for part in argument.parts if not part.optional for word in _words(part, group)]
    if argument.kind == "key":
        return [*token, KEYS.get(group, "string")]
    return [*token, "1" if argument.kind in NUMERIC else WORDS.get(argument.name, "a")]


def _varied(argument: Argument, group: str) -> Iterator[list[str]]:
    """Yield an argument's words with each extreme number at each numeric position."""
    token = [argument.token] if argument.token else []
    if argument.kind in NUMERIC:
        yield from ([*token, number] for number in NUMBERS)
    elif argument.kind == "oneof":
        for part in argument.parts:
            yield from (token + words for words in _varied(part, group))
    elif argument.kind == "block":
        needed = [part for part in argument.parts if not part.optional]
        for at, part in enumerate(needed):
            for words in _varied(part, group):
                parts = [_words(other, group) if n != at else words for n, other in enumerate(needed)]
                yield token + [word for chunk in parts for word in chunk]


def _of(command: Command) -> Iterator[list[str]]:
    given = arguments(command.syntax) if command.syntax else []
    for at, varied in enumerate(given):
        for words in _varied(varied, command.group):
            parts = [
                words if n == at else _words(argument, command.group)
                for n, argument in enumerate(given)
                if n == at or not argument.optional
            ]
            yield [*command.name.upper().split("|"), *[word for part in parts for word in part]]


def generated() -> Iterator[list[str]]:
    """Yield all commands with extreme numbers."""
    for command in all_commands():
        if command.group not in LEFT_OUT_GROUPS and command.name not in LEFT_OUT and not command.name.startswith("ps."):
            yield from _of(command)


def is_excused(words: list[str]) -> bool:
    """Return whether replies may differ: random choices, and features that Redis 8.6 lacks."""
    return words[0] in {"XNACK", "HRANDFIELD"} or not {"MAXCOUNT", "MAXSIZE"}.isdisjoint(words)


class Side:
    """One server, whose data is restored before each command. A timeout counts as a reply."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._client = self._connect()

    def _connect(self) -> redis.Connection:
        return redis.Connection(port=self._port, protocol=2, socket_timeout=0.15)

    def close(self) -> None:
        """Empty the server and close the connection."""
        self._client.send_command("FLUSHALL")
        self._client.read_response()
        self._client.disconnect()

    def reply(self, words: list[str]) -> str:
        setup = [line.split(" ") for line in ("FLUSHALL", *SCENE)]
        for line in setup:
            self._client.send_command(*line)
        for _ in setup:
            self._client.read_response()
        self._client.send_command(*words)
        try:
            return repr(self._client.read_response())
        except redis.ResponseError as error:
            return f"error {error}"
        except redis.TimeoutError:
            self._client.disconnect()
            self._client = self._connect()
            return "waits"


def differences(first: Side, second: Side) -> Iterator[tuple[list[str], str, str]]:
    """Yield the commands whose replies differ, with both replies."""
    for words in generated():
        reply, other_reply = first.reply(words), second.reply(words)
        if reply != other_reply and not is_excused(words):
            yield words, reply, other_reply


if __name__ == "__main__":
    for difference in differences(Side(int(sys.argv[1])), Side(int(sys.argv[2]))):
        print(*difference, sep=" | ")
