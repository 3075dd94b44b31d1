"""The history of the replication stream: offsets, IDs, and the bytes in the backlog."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest

from engine.shell.replication.history import NO_ID, History


@pytest.mark.parametrize("seed", range(20))
def test_the_history_covers_what_its_ids_share(seed):
    """After any changes of the ID, exactly the offsets that are in the backlog and under the ID are covered.

    From each of them, the history returns the bytes from there on. A history that was released, renewed or adopted
    covers nothing of its previous ID; one that leads or is renamed covers it up to the change.
    """
    random, numbers, size = Random(seed), count(1), 50_000
    history = History(lambda: b"%040x" % next(numbers), size)
    text, kept, second = bytearray(), 0, (NO_ID, -1)
    ids = [history.id]
    history.feed(b"before")
    text += b"before"
    assert (history.offset, history.held) == (6, 0)
    history.keep()
    kept = 6
    for step in range(120):
        before, kind = history.id, random.random()
        if kind < 0.8:
            block = random.randbytes(random.choice((1, 30, 1000, 20_000)))
            history.feed(block)
            text += block
        elif kind < 0.95:
            if kind < 0.9:
                history.lead()
            else:
                history.rename(b"m%039d" % step)
            second = before, len(text) + 1
        else:
            if kind < 0.97:
                history.release()
                history.keep()
            elif kind < 0.98:
                history.renew()
            else:
                text = bytearray(random.randbytes(random.choice((5, len(text)))))
                history.adopt(b"a%039d" % step, len(text))
            kept, second = len(text), (NO_ID, -1)
        ids.append(history.id)
        assert (history.id != before) == (kind >= 0.8)
        assert (history.offset, history.second_id, history.second_offset) == (len(text), *second)
        assert min(size, len(text) - kept) <= history.held <= min(size + 36_384, len(text) - kept)
        for offset in (0, kept, kept + 1, history.first, len(text), len(text) + 1, len(text) + 2, second[1]):
            is_held = history.first <= offset <= len(text) + 1
            assert history.covers(history.id, offset) == is_held
            if is_held:
                assert b"".join(history.since(offset)) == text[offset - 1 :]
            for other in {*ids[-5:]} - {history.id}:
                assert history.covers(other, offset) == (is_held and other == second[0] and offset <= second[1])


def test_blocks_are_returned_without_a_copy():
    """A large block is returned as the object that was fed, so it is not copied for a replica."""
    history = History(lambda: b"a" * 40, 1 << 20)
    history.keep()
    block = bytes(20_000)
    history.feed(block)
    assert history.since(1)[0] is block


def test_the_same_id_changes_nothing():
    """A history that is renamed to its own ID has no second ID."""
    history = History(lambda: b"a" * 40, 100)
    history.rename(b"a" * 40)
    assert history.second_id == NO_ID
