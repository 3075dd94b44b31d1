"""entries-read after the delivery of many entries, against delivering one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.core.protocol import ids
from engine.core.streams.group import UNKNOWN, estimate_read, has_tombstone_from, read_after_delivery
from engine.core.streams.segment import Storage
from engine.core.streams.stream import Stream
from streamwire.frames import frame


def read_one(stream: Stream, last_id: int, entries_read: int, entry_id: int) -> int:
    """Return entries-read after the delivery of one entry, by the rule of XREADGROUP."""
    if entries_read != UNKNOWN and last_id >= stream.first_id and not has_tombstone_from(stream, last_id):
        return entries_read + 1
    return estimate_read(stream, entry_id)


@given(
    st.integers(1, 12),
    st.lists(st.integers(1, 12), max_size=6),
    st.integers(0, 5),
    st.integers(0, 12),
    st.booleans(),
)
def test_entries_read_of_a_large_delivery(size, deleted, trimmed, last_id, counted):
    """A delivery of many entries gives the entries-read of single deliveries, even after deletions and trims."""
    stream = Stream(Storage())
    for number in range(1, size + 1):
        stream.append(number, frame(ids.text(number), [b"f", b"v"]))
    for number in deleted:
        stream.delete(number)
    stream.trim_head(trimmed)
    entries_read = min(last_id, size) if counted else UNKNOWN
    delivered = stream.ids(last_id + 1, ids.MAX_ID)
    position, expected = last_id, entries_read
    for count, entry_id in enumerate(delivered, 1):
        expected = read_one(stream, position, expected, entry_id)
        position = entry_id
        assert read_after_delivery(stream, last_id, entries_read, delivered[0], entry_id, count) == expected
