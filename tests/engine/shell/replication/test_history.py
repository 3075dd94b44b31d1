"""The history of the replication stream: offsets, IDs, and the bytes in the backlog."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest

from engine.shell.replication.history import NO_ID, History


def new_history(size: int = 100) -> History:
    numbers = count(1)
    history = History(lambda: b"%040x" % next(numbers), size)
    history.keep()
    return history


def fed(history: History, text: bytes) -> History:
    for at in range(0, len(text), 10):
        history.feed(text[at : at + 10])
    return history


def test_every_covered_offset_gives_the_bytes_from_there_on():
    """From each covered offset, the history returns exactly the bytes from that offset on, for blocks of any size."""
    random = Random(7)
    history = new_history(50_000)
    text = b""
    for _ in range(400):
        block = random.randbytes(random.choice((1, 30, 1000, 20_000)))
        history.feed(block)
        text += block
        assert history.offset == len(text)
        for offset in (
            history.first,
            history.offset,
            history.offset + 1,
            random.randint(history.first, history.offset),
        ):
            assert history.covers(history.id, offset)
            assert b"".join(history.since(offset)) == text[offset - 1 :]
    assert not history.covers(history.id, history.first - 1)
    assert not history.covers(history.id, history.offset + 2)
    assert 50_000 <= history.held <= 50_000 + 2 * 20_000 + 16 * 1024


def test_blocks_are_returned_without_a_copy():
    """A large block is returned as the object that was fed, so it is not copied for a replica."""
    history = new_history(1 << 20)
    block = bytes(20_000)
    history.feed(block)
    assert history.since(1)[0] is block


def test_no_bytes_are_kept_before_keep():
    """Offsets count from the start, and bytes are kept from keep() on."""
    history = History(lambda: b"a" * 40, 100)
    history.feed(b"0123456789")
    assert (history.offset, history.held) == (10, 0)
    assert not history.covers(history.id, 11)
    history.keep()
    assert history.covers(history.id, 11)
    assert not history.covers(history.id, 10)
    assert history.since(11) == []


@pytest.mark.parametrize("end", [History.release, History.renew])
def test_a_gap_changes_the_id(end):
    """A history whose bytes were dropped, or whose data was replaced, covers no offset of the previous ID."""
    history = fed(new_history(), b"x" * 40)
    before = history.id
    end(history)
    history.keep()
    assert history.id != before
    assert history.offset == 40
    assert not history.covers(before, 41)


def test_a_promoted_replica_covers_both_ids_up_to_the_change():
    """After lead() the previous ID is valid for offsets up to the change, and not after it."""
    history = fed(new_history(1000), b"a" * 100)
    before = history.id
    history.lead()
    fed(history, b"b" * 50)
    assert (history.second_id, history.second_offset) == (before, 101)
    assert history.covers(before, 101)
    assert history.covers(before, 60)
    assert not history.covers(before, 102)
    assert history.covers(history.id, 151)
    assert b"".join(history.since(101)) == b"b" * 50


def test_a_full_synchronisation_drops_earlier_bytes():
    """adopt() sets the master's ID and offset; earlier bytes are not covered, even at the same offsets."""
    history = fed(new_history(1000), b"a" * 100)
    before = history.id
    history.adopt(b"m" * 40, 100)
    assert (history.id, history.offset, history.second_id, history.held) == (b"m" * 40, 100, NO_ID, 0)
    assert not history.covers(before, 101)
    assert history.covers(b"m" * 40, 101)


def test_a_renamed_history_keeps_its_bytes():
    """rename() keeps the backlog under the new ID and, up to the current offset, under the previous ID."""
    history = fed(new_history(1000), b"a" * 100)
    before = history.id
    history.rename(before)
    assert history.second_id == NO_ID
    history.rename(b"m" * 40)
    assert history.covers(b"m" * 40, 50)
    assert history.covers(before, 50)
    assert (history.second_id, history.second_offset) == (before, 101)
