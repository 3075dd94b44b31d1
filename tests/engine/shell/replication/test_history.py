"""The history of the replication stream: offsets, IDs, and the bytes in the backlog."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest

from engine.shell.replication.history import NO_ID, History


def history(size: int = 100) -> History:
    numbers = count(1)
    one = History(lambda: b"%040x" % next(numbers), size)
    one.keep()
    return one


def fed(one: History, text: bytes) -> History:
    for at in range(0, len(text), 10):
        one.feed(text[at : at + 10])
    return one


def test_every_covered_offset_gives_the_bytes_after_it():
    """From each covered offset the history returns exactly the bytes after it, for blocks of any size."""
    random = Random(7)
    one = history(50_000)
    text = b""
    for _ in range(400):
        block = random.randbytes(random.choice((1, 30, 1000, 20_000)))
        one.feed(block)
        text += block
        assert one.offset == len(text)
        for offset in (one.first, one.offset, one.offset + 1, random.randint(one.first, one.offset)):
            assert one.covers(one.id, offset)
            assert b"".join(one.since(offset)) == text[offset - 1 :]
    assert not one.covers(one.id, one.first - 1)
    assert not one.covers(one.id, one.offset + 2)
    assert 50_000 <= one.held <= 50_000 + 2 * 20_000 + 16 * 1024


def test_blocks_are_returned_without_a_copy():
    """A large block is returned as the object that was fed, so that a slow reader costs no copy."""
    one = history(1 << 20)
    block = bytes(20_000)
    one.feed(block)
    assert one.since(1)[0] is block


def test_no_bytes_are_kept_before_keep():
    """Offsets count from the start, and bytes are kept from keep() on."""
    one = History(lambda: b"a" * 40, 100)
    one.feed(b"0123456789")
    assert (one.offset, one.held) == (10, 0)
    assert not one.covers(one.id, 11)
    one.keep()
    assert one.covers(one.id, 11)
    assert not one.covers(one.id, 10)
    assert one.since(11) == []


@pytest.mark.parametrize("end", [History.release, History.renew])
def test_a_gap_changes_the_id(end):
    """A history whose bytes were dropped, or whose data was replaced, covers no replica of the previous ID."""
    one = fed(history(), b"x" * 40)
    before = one.id
    end(one)
    one.keep()
    assert one.id != before
    assert one.offset == 40
    assert not one.covers(before, 41)


def test_a_promoted_replica_covers_both_ids_up_to_the_change():
    """After lead() the previous ID is valid for offsets up to the change, and not after it."""
    one = fed(history(1000), b"a" * 100)
    before = one.id
    one.lead()
    fed(one, b"b" * 50)
    assert (one.second_id, one.second_offset) == (before, 101)
    assert one.covers(before, 101)
    assert one.covers(before, 60)
    assert not one.covers(before, 102)
    assert one.covers(one.id, 151)
    assert b"".join(one.since(101)) == b"b" * 50


def test_a_full_synchronisation_drops_earlier_bytes():
    """adopt() sets the master's ID and offset; earlier bytes are not covered, even at the same offsets."""
    one = fed(history(1000), b"a" * 100)
    before = one.id
    one.adopt(b"m" * 40, 100)
    assert (one.id, one.offset, one.second_id, one.held) == (b"m" * 40, 100, NO_ID, 0)
    assert not one.covers(before, 101)
    assert one.covers(b"m" * 40, 101)


def test_a_renamed_history_keeps_its_bytes():
    """rename() keeps the backlog under the new ID and, up to the current offset, under the previous ID."""
    one = fed(history(1000), b"a" * 100)
    before = one.id
    one.rename(before)
    assert one.second_id == NO_ID
    one.rename(b"m" * 40)
    assert one.covers(b"m" * 40, 50)
    assert one.covers(before, 50)
    assert (one.second_id, one.second_offset) == (before, 101)
