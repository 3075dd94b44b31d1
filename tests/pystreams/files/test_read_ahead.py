"""Read-ahead of rows, limited in bytes and in number."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import redis

from pystreams.commands import produce
from pystreams.commands.produce import ReadAhead
from pystreams.files.rows import Row
from tests.pystreams.conftest import Cli
from tests.suite.waiting import wait_for


def test_read_ahead_is_limited_in_bytes() -> None:
    """With a limit of ten bytes, two items of five bytes are queued, and `put` of a third item blocks."""
    read, made = ReadAhead(1000, 10), [0]

    def fill() -> None:
        for number in range(50):
            made[0] += 1
            read.put(number, 5)

    thread = threading.Thread(target=fill)
    thread.start()
    wait_for(lambda: made[0] == 3, "a full queue")
    for number in range(50):
        assert made[0] <= number + 3
        assert read.get() == number
    thread.join(20)
    assert not thread.is_alive()


def test_an_item_above_the_limit_is_queued_alone() -> None:
    """An item above the limit is queued alone, `get` raises TimeoutError without data, and `end` releases a blocked
    `put`.
    """
    read = ReadAhead(1000, 10)
    assert read.put("large", 100)
    thread = threading.Thread(target=read.put, args=("next", 100))
    thread.start()
    assert (read.get(), read.get()) == ("large", "next")
    with pytest.raises(TimeoutError):
        read.get(0)
    thread.join(20)
    read.put("full", 100)
    waiting = threading.Thread(target=read.put, args=("never", 1))
    waiting.start()
    read.end()
    waiting.join(20)
    assert not waiting.is_alive()


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_produce_holds_a_few_large_rows_in_memory(
    cli_of: Cli, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`produce` reads no more rows of a megabyte ahead of the server than the limit allows."""
    size, made, sent, most = 1 << 20, [0], [0], [0]
    value = b"x" * size

    def rows(*_: object, **__: object) -> Iterator[Row]:
        for _ in range(60):
            made[0] += 1
            yield Row(None, [b"f", value])

    flush = produce.Producer.flush

    def counted(self: produce.Producer) -> None:
        flush(self)
        sent[0] = self.added
        most[0] = max(most[0], made[0] - sent[0])

    monkeypatch.setattr(produce.rows, "read", rows)
    monkeypatch.setattr(produce.Producer, "flush", counted)
    assert cli_of.json("produce", "s", "--maxlen", "1", "-f", "-", "--format", "lines", stdin="") == {"added": 60}
    assert most[0] <= produce._QUEUED_BYTES // size + 3
