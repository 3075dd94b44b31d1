"""Pipelines of XADD over TCP: the replies do not depend on how the bytes are cut into packets."""

from __future__ import annotations

import random

import hiredis
import pytest

from tests import servers


def encoded(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def commands() -> list[bytes]:
    out = []
    for number in range(3000):
        value = b"line\r\nend" if number % 701 == 0 else b"%d" % (number * 37 % 9999)
        out.append(encoded(b"XADD", b"s%d" % (number // 1000), b"%d-1" % (number + 1), b"sensor-id", b"1", b"t", value))
        if number == 1500:
            out.append(encoded(b"XADD", b"s1", b"5-1", b"f", b"too small"))
        if number == 2000:
            out.append(encoded(b"MULTI"))
        if number == 2300:
            out.append(encoded(b"EXEC"))
    return out


@pytest.fixture(scope="module")
def server():
    with servers.engine() as running:
        yield running


@pytest.mark.parametrize("seed", range(4))
def test_replies_do_not_depend_on_the_pieces(server, seed):
    """A pipeline with a transaction and an error gets the same replies in random pieces as one command at a time."""
    chance = random.Random(seed)
    data = b"".join(commands()) + encoded(b"XLEN", b"s0") + encoded(b"XRANGE", b"s1", b"-", b"+")
    expected = None
    for pieces in ("one command at a time", "random"):
        with server.connect() as connection:
            connection.sendall(encoded(b"FLUSHALL"))
            assert connection.recv(100) == b"+OK\r\n"
            reader, replies, at = hiredis.Reader(), [], 0
            wanted = len(commands()) + 2
            if pieces == "random":
                while at < len(data):
                    size = chance.choice([1, 100, 5000, 60_000])
                    connection.sendall(data[at : at + size])
                    at += size
            else:
                for command in commands():
                    connection.sendall(command)
                connection.sendall(encoded(b"XLEN", b"s0") + encoded(b"XRANGE", b"s1", b"-", b"+"))
            while len(replies) < wanted:
                reader.feed(connection.recv(1 << 20))
                while (reply := reader.gets()) is not False:
                    replies.append(str(reply) if isinstance(reply, Exception) else reply)
            if expected is None:
                expected = replies
            assert replies == expected
