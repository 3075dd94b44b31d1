"""Fences without a server: the rows that a fence skips, adds and rejects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_streams.errors import WriteError
from spark_streams.write.protocol import StreamFence
from spark_streams.write.records import FENCE_FIELDS, FenceState, RowDigest, WriterId
from streamwire.slots import same_slot_tag, slot_of

QUERY = "0b8e9a10-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    "key", [b"s", b"name:{7}", b"", b"{}", b"a}b", b"{}x", b"{a}b}", b"{{a}", b"}{", b"\xff{\xfe}"]
)
def test_a_fence_is_in_the_slot_of_its_stream(key: bytes) -> None:
    """The fence of any stream is in the stream's cluster slot, and another stream has another fence."""
    assert slot_of(b"x{%b}y" % same_slot_tag(key)) == slot_of(key)
    assert slot_of(WriterId(QUERY, 3, 1).fence_key(key)) == slot_of(key)
    assert WriterId(QUERY, 3, 1).fence_key(key) != WriterId(QUERY, 3, 1).fence_key(key + b"'")


def test_slots_are_those_of_redis_cluster() -> None:
    """Slots are those of CLUSTER KEYSLOT."""
    assert (slot_of(b"123456789"), slot_of(b"{user1000}.following"), slot_of(b"foo{{bar}}zap")) == (12739, 3443, 4015)


HASHES = st.lists(st.integers(0, (1 << 64) - 1), max_size=12)


def hashes(*numbers: int) -> Any:
    return np.array(numbers, np.uint64)


def stored(batch: int, numbers: list[int], refused: bytes = b"") -> list[bytes | None]:
    """Return the fields of a fence as HMGET does."""
    digest = RowDigest().plus(hashes(*numbers))
    return [b"%d" % batch, b"%d" % digest.rows, digest.text.encode(), b"1", refused]


@given(rows=HASHES, done=st.integers(0, 12), data=st.data())
@settings(deadline=None)
def test_a_fence_skips_exactly_the_counted_rows(rows: list[int], done: int, data: st.DataObject) -> None:
    """A fence skips exactly the rows that it counts, for any division into chunks."""
    done = min(done, len(rows))
    fence = StreamFence(b"s", WriterId(QUERY, 5, 0), "here")
    fence.update(stored(5, rows[:done]) if done else [None] * len(FENCE_FIELDS))
    written: list[int] = []
    at = 0
    while at < len(rows):
        size = data.draw(st.integers(1, len(rows) - at))
        chunk = hashes(*rows[at : at + size])
        skipped = fence.count_written(chunk)
        fence.advance(chunk[:skipped])
        rest = chunk[skipped:]
        state = fence.next_state(rest)
        fence.advance(rest)
        if size > skipped:
            fence.state = state
        written += rest.tolist()
        at += size
    fence.finish()
    assert written == rows[done:]
    if written:
        assert (fence.state.rows, fence.state.digest) == (len(rows), RowDigest().plus(hashes(*rows)).text)


@given(rows=st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=9), data=st.data())
@settings(deadline=None)
def test_a_complete_task_may_be_repeated_in_another_order(rows: list[int], data: st.DataObject) -> None:
    """A repeated task may have its rows in any order; an added, missing or changed row is rejected."""
    again = data.draw(st.permutations(rows))
    kinds = {"same": again, "more": [*again, 7], "less": again[1:], "other": [again[0] ^ 1, *again[1:]]}
    for kind, numbers in kinds.items():
        if kind == "more" and again == rows:
            continue  # additional rows after the same rows in the same order are accepted
        fence = StreamFence(b"s", WriterId(QUERY, 5, 0), "here")
        fence.update(stored(5, rows))
        cut = data.draw(st.integers(0, len(numbers)))

        def bring(fence: StreamFence = fence, parts: Any = (numbers[:cut], numbers[cut:])) -> None:
            for part in parts:
                if part:
                    assert fence.count_written(hashes(*part)) == len(part)
                    fence.advance(hashes(*part))
            fence.finish()

        if kind == "same":
            bring()
        else:
            with pytest.raises(WriteError, match="REPLAY_DIFFERS"):
                bring()


@pytest.mark.parametrize(
    ("values", "condition"),
    [
        (stored(6, [1]), "FENCE_AHEAD"),
        (stored(5, [1, 2], b"7 no room"), "ROW_REFUSED"),
        (stored(5, [1, 2]), "REPLAY_DIFFERS"),
        ([b"5", b"2", b"a" * 32, b"1", b""], "FENCE_VERSION"),
    ],
)
def test_a_fence_that_does_not_match_fails_the_task(values: list[bytes | None], condition: str) -> None:
    """A later batch, a rejected row, other rows and an old digest version have separate errors."""
    fence = StreamFence(b"s", WriterId(QUERY, 5, 0), "here")

    def meet() -> None:
        fence.update(values)
        fence.count_written(hashes(1, 3, 4))

    with pytest.raises(WriteError) as caught:
        meet()
    assert caught.value.condition == condition
    assert FenceState.parse([None] * len(FENCE_FIELDS)) == FenceState()


def test_a_fence_that_went_back_fails_the_task() -> None:
    """A fence that counts fewer rows than were confirmed fails the task; so does a replay with fewer rows."""
    fence = StreamFence(b"s", WriterId(QUERY, 5, 0), "here")
    fence.advance(hashes(1, 2))
    with pytest.raises(WriteError, match="FENCE_BEHIND"):
        fence.update(stored(5, [1]))
    fence.update(stored(5, [1, 2, 3]))
    with pytest.raises(WriteError, match="REPLAY_DIFFERS"):
        fence.finish()
