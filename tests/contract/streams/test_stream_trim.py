"""Approximate trimming, for any size of the server's nodes. tests/differential compares exact trims with a real one."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server


def fill(server: Server, count: int) -> None:
    """Add the entries 1-0 to count-0."""
    for n in range(1, count + 1):
        server.main.send(f"XADD s {n}-0 f v")
    for n in range(1, count + 1):
        assert server.main.receive() == f"{n}-0".encode()


def ids(server: Server) -> list[str]:
    return [entry[0].decode() for entry in server.run("XRANGE s - +")]


@pytest.mark.parametrize(
    ("options", "needed"), [("MAXLEN ~ 55", 55), ("MAXLEN ~ 0", 0), ("MINID ~ 201", 50), ("MINID ~ 90 LIMIT 3", 161)]
)
def test_approximate_trimming_keeps_enough(server: Server, options: str, needed: int) -> None:
    """``~`` never removes an entry that an exact trim keeps, whatever the size of the server's nodes."""
    fill(server, 250)
    removed = server.run(f"XTRIM s {options}")
    assert ids(server) == [f"{n}-0" for n in range(removed + 1, 251)]
    assert 250 - removed >= needed
