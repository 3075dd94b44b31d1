"""Scenes: steps that run in order on a server that is empty at the start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.harness.replies import Between

Step = tuple[str, Any]


@dataclass(frozen=True)
class Scene:
    """``before`` prepares the scene and is not shown in the document; each step is a command with its
    documented reply.
    """

    name: str
    steps: list[Step]
    before: tuple[str, ...] = ()


class Fields:
    """A value that equals a record (map or flat array) with at least these fields and values.

    Releases add fields to the records of XINFO, so a document's example shows those of its time.
    """

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = {name.encode(): _bytes(value) for name, value in fields.items()}

    def __eq__(self, other: object) -> bool:
        if isinstance(other, list):
            other = dict(zip(other[::2], other[1::2], strict=True))
        if not isinstance(other, dict):
            return False
        return all(name in other and other[name] == value for name, value in self._fields.items())

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"Fields({self._fields})"


class HelpOn:
    """A value that equals a help text (an array) with a line for each of these subcommands."""

    def __init__(self, first: str, subcommands: list[str]) -> None:
        self._first = first.encode()
        self._subcommands = [word.encode() for word in subcommands]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list) or not other or other[0] != self._first:
            return False
        return all(any(line.startswith(word) for line in other) for word in self._subcommands)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"HelpOn({self._first!r}, {self._subcommands})"


XINFO_HELP = HelpOn(
    "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    ["CONSUMERS <key> <groupname>", "GROUPS <key>", "STREAM <key> [FULL [COUNT <count>]", "HELP"],
)


def _bytes(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [_bytes(part) for part in value]
    return value


def idle(ms: int) -> Between:
    """Return a value that equals an idle time of ``ms`` plus the delay of a slow run."""
    return Between(ms, ms + 600_000)


def aged(key: str, group: str, consumer: str, ms: int, *ids: str, deliveries: int = 1) -> str:
    """Return the command that makes pending entries ``ms`` old without another delivery."""
    return f"XCLAIM {key} {group} {consumer} 0 {' '.join(ids)} IDLE {ms} RETRYCOUNT {deliveries} JUSTID"
