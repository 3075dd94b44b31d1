"""Cases for a comparison with fakeredis's TCP server: a few kinds of work, with few entries because the server is slow.

Its reply to an XADD has one line instead of two, so the number of lines per reply is determined before measuring.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.engine.cases import KEY, Case, flush, nothing
from benchmarks.engine.client import Connection, command

_ENTRIES = 2_000


def fake_cases() -> list[Case]:
    """Return the cases in the order in which they run."""
    adds = _adds()
    read = command("XREADGROUP", "GROUP", "g", "c", "COUNT", 100, "STREAMS", KEY, ">")
    return [
        _case("XADD, pipeline of 1", 500, flush, adds[:500], 1),
        _case("XADD, pipeline of 100", _ENTRIES, flush, adds, 100),
        _case("XRANGE COUNT 100", _ENTRIES, _fill, [_range(first) for first in range(1, _ENTRIES, 100)], 1),
        _case("XREADGROUP COUNT 100", _ENTRIES, _new_group, [read] * (_ENTRIES // 100), 1),
    ]


def _adds() -> list[bytes]:
    return [
        command("XADD", KEY, f"{number}-1", "sensor-id", 1234, "temperature", "19.8")
        for number in range(1, _ENTRIES + 1)
    ]


def _range(first: int) -> bytes:
    return command("XRANGE", KEY, f"{first}-1", "+", "COUNT", 100)


def _case(name: str, entries: int, set_up: Callable[[Connection], None], commands: list[bytes], pipeline: int) -> Case:
    requests = [b"".join(commands[at : at + pipeline]) for at in range(0, len(commands), pipeline)]
    lines = [0]

    def prepare(connection: Connection) -> None:
        set_up(connection)
        lines[0] = connection.reply(requests[0]).count(b"\n")
        set_up(connection)

    def work(connection: Connection) -> None:
        for request in requests:
            connection.lines(request, lines[0])

    return Case(name, entries, prepare, work, nothing)


def _fill(connection: Connection) -> None:
    flush(connection)
    connection.reply(b"".join(_adds()))


def _new_group(connection: Connection) -> None:
    if connection.reply(command("EXISTS", KEY)) != b":1\r\n":
        _fill(connection)
    connection.reply(command("XGROUP", "DESTROY", KEY, "g"))
    connection.reply(command("XGROUP", "CREATE", KEY, "g", 0))
