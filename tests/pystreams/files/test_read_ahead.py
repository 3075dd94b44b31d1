"""Read-ahead of rows, limited in bytes and in number."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from pystreams.commands import produce
from pystreams.files.rows import Row
from tests.pystreams.conftest import Cli


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
