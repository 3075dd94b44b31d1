"""COMMAND's description of the stream commands: arity, flags, keys."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import since

W, R, F, B, O = "write", "readonly", "fast", "blocking", "denyoom"  # noqa: E741  (one letter for each of Redis's flags)
OF_THESE = {W, R, F, B, O}

TABLE = [
    ("xadd", -5, {W, F, O}),
    ("xtrim", -4, {W}),
    ("xdel", -3, {W, F}),
    ("xlen", 2, {R, F}),
    ("xrange", -4, {R}),
    ("xrevrange", -4, {R}),
    ("xread", -4, {R, B}),
    ("xreadgroup", -7, {W, B}),
    ("xack", -4, {W, F}),
    ("xpending", -3, {R}),
    ("xclaim", -6, {W, F}),
    ("xautoclaim", -6, {W, F}),
    ("xsetid", -3, {W, F, O}),
]
NEWER = [
    pytest.param("xdelex", -5, {W, F}, marks=since("8.2")),
    pytest.param("xackdel", -6, {W, F}, marks=since("8.2")),
    pytest.param("xnack", -7, {W, F}, marks=since("8.8")),
    pytest.param("xcfgset", -2, {W, F}, marks=since("8.6")),
    pytest.param("xidmprecord", 5, {W, F, O}, marks=since("8.8")),
]
SUBCOMMANDS = [
    ("xgroup|create", -5, {W, O}),
    ("xgroup|setid", -5, {W}),
    ("xgroup|createconsumer", 5, {W, O}),
    ("xgroup|delconsumer", 5, {W}),
    ("xgroup|destroy", 4, {W}),
    ("xinfo|stream", -3, {R}),
    ("xinfo|groups", 3, {R}),
    ("xinfo|consumers", 4, {R}),
]


@pytest.mark.parametrize(("name", "arity", "flags"), [*TABLE, *NEWER, *SUBCOMMANDS])
def test_arity_and_flags(server: Server, name: str, arity: int, flags: set[str]) -> None:
    """COMMAND INFO has Redis's arity of each command, and those of its flags that are in ``OF_THESE``."""
    (info,) = server.run("COMMAND", "INFO", name)
    assert info[:2] == [name.encode(), arity]
    assert {flag.decode() for flag in info[2]} & OF_THESE == flags


def test_keys(server: Server) -> None:
    """COMMAND GETKEYS finds the keys, including those after STREAMS."""
    for command, keys in [
        ("XADD s * f v", ["s"]),
        ("XREAD STREAMS s 0", ["s"]),
        ("XREAD COUNT 2 BLOCK 0 STREAMS s t 0 0", ["s", "t"]),
        ("XREADGROUP GROUP g c COUNT 1 NOACK STREAMS s t u > > >", ["s", "t", "u"]),
        ("XGROUP CREATE s g $ MKSTREAM", ["s"]),
        ("XINFO STREAM s", ["s"]),
        ("XPENDING s g", ["s"]),
        ("XCLAIM s g c 0 1-0", ["s"]),
    ]:
        server.expect(f"COMMAND GETKEYS {command}", keys)
