"""The node map: deriving many nodes at once equals deriving them entry by entry, at a low cost."""

from __future__ import annotations

import random
from itertools import chain
from typing import Any

import pytest

from engine.core.dispatch import Core
from engine.core.protocol.replies import CommandError
from engine.core.streams import nodes, segment
from engine.core.streams.stream import Stream
from tests.harness.replay import NOW_US, new_core

_NUMBERS = (0, 127, 128, 4095, 4096, 32767, 32768, 8388607, 8388608, 2**31 - 1, 2**31, 2**63 - 1, 2**63)
_VALUES = [
    *(b"%d" % (sign * number) for number in _NUMBERS for sign in (1, -1)),
    *(b"x" * size for size in (0, 1, 3, 20, 62, 63, 64, 65, 125, 126, 127, 128, 4095, 4096)),
    *(b"007", b"-0", b"-", b"1a", b"+1", b"1" * 19, b"1" * 20, b"-" + b"9" * 19),
]
_SHAPES = ([b"a", b"b"], [b"name"], [b"first", b"second", b"third"], [b"7", b"x"])


def _history(seed: int) -> list[Any]:
    """Change a stream at random; return the numbers of trimmed entries and the node maps after each step."""
    chance, core, shown = random.Random(seed), new_core(), []

    def run(*words: Any) -> Any:
        argv = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        return core.execute(session, argv, NOW_US)

    def limit_nodes() -> None:
        sizes = chance.choice((0, 100, 500, 4096)), chance.choice((0, 5, 100, 300))
        run("CONFIG", "SET", "stream-node-max-bytes", sizes[0], "stream-node-max-entries", sizes[1])

    session, ms, ids = core.open_session(NOW_US), 1000, list[bytes]()
    limit_nodes()
    for _ in range(chance.randint(3, 8)):
        names = chance.choice(_SHAPES)
        for _ in range(chance.choice((1, 10, 70, 200))):
            ms += chance.choice((0, 1, 1, 200, 100_000))
            values = chance.choices(_VALUES[:36] if chance.random() < 0.95 else _VALUES, k=len(names))
            ids.append(run("XADD", "k", b"%d-*" % ms, *chain(*zip(names, values, strict=True))))
        if chance.random() < 0.4:
            run("XDEL", "k", *chance.sample(ids, min(len(ids), chance.choice((1, 5, 40)))))
        if chance.random() < 0.5:
            how = chance.choice((("MAXLEN", chance.choice((0, 10, 100))), ("MINID", max(ms - 3000, 0))))
            removed = run("XTRIM", "k", how[0], "~", how[1], "LIMIT", chance.choice((0, 10, 50, 200)))
            assert not isinstance(removed, CommandError)
            shown.append(removed)
        if chance.random() < 0.2:
            limit_nodes()
        stream = core.databases[0].get(b"k")
        if stream is not None:
            shown.append(stream.node_extents())
    return shown


@pytest.mark.parametrize("seed", range(60))
def test_many_nodes_at_once_equal_single_derivations(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The map and trims are the same whether entries and segments are processed together or one by one."""
    monkeypatch.setattr(segment, "SEGMENT_ENTRIES", 150)
    monkeypatch.setattr(nodes, "_MANY", 3)
    monkeypatch.setattr(nodes, "_AT_ONCE", (40, 100, 2000)[seed % 3])
    together = _history(seed)
    monkeypatch.setattr(nodes, "_MANY", 10**9)
    monkeypatch.setattr(Stream, "head_live", 1 << 60)
    assert _history(seed) == together


def _long_stream(count: int) -> tuple[Core, Any]:
    core = new_core()
    session = core.open_session(NOW_US)
    for number in range(count):
        core.execute(session, [b"XADD", b"k", b"*", b"name", b"value %d" % number], NOW_US + number * 1000)
    return core, session


@pytest.mark.parametrize(
    "words", ["MAXLEN ~ 100", "MAXLEN ~ 100 LIMIT 5000", "MINID ~ 2000000000000", "MAXLEN ~ 100 DELREF"]
)
def test_approximate_trimming_reads_few_entries(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Approximate trimming of thousands of entries parses few of them individually."""
    core, session = _long_stream(20_000)
    parsed = 0

    def split_fields(frame: bytes) -> list[bytes]:
        nonlocal parsed
        parsed += 1
        return real(frame)

    real = nodes.split_fields
    monkeypatch.setattr(nodes, "split_fields", split_fields)
    removed = core.execute(session, [b"XTRIM", b"k", *words.encode().split()], NOW_US)
    assert removed >= 4900
    assert parsed < nodes._MANY
