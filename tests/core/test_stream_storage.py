"""Segments, streams and the node map against plain lists."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.core import ids, segment, storage
from engine.core.frames import fields_of, frame
from engine.core.nodes import packed_int, packed_word, radix_nodes
from engine.core.packed import pack
from engine.core.storage import Storage
from engine.core.stream import Stream

WORDS = st.lists(st.binary(max_size=20), min_size=2, max_size=6).filter(lambda words: not len(words) % 2)


@given(st.integers(0, ids.MAX_ID), WORDS)
def test_fields_come_back(entry_id, words):
    """A frame gives back the fields that it was made of, whatever bytes they hold."""
    assert fields_of(frame(ids.text(entry_id), words)) == words


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(1, 4)),
            st.tuples(st.just("delete"), st.integers(0, 60)),
            st.tuples(st.just("trim"), st.integers(0, 6)),
            st.tuples(st.just("pack"), st.integers(0, 1)),
        ),
        max_size=60,
    ),
    st.integers(0, 60),
    st.integers(0, 60),
    st.integers(0, 8),
)
def test_equals_a_list(steps, low, high, count):
    """After additions, deletions and trims a stream answers ranges, counts and look-ups as a list of entries does."""
    sizes = segment.SEGMENT_BYTES, segment.SEGMENT_ENTRIES, segment.SEGMENT_STEP, storage.LAID_OUT_BYTES
    segment.SEGMENT_BYTES, segment.SEGMENT_ENTRIES, segment.SEGMENT_STEP, storage.LAID_OUT_BYTES = 200, 5, 1, 300
    try:
        stream, model, top = Stream(Storage(0, 3)), {}, 0
        for kind, number in steps:
            if kind == "add":
                top += number
                entry = frame(ids.text(top), [b"f", b"%d" % top])
                stream.append(top, entry)
                model[top] = entry
            elif kind == "delete":
                assert stream.delete(number) == (model.pop(number, None) is not None)
            elif kind == "pack":
                cold = stream.storage.next_sealed()
                if cold is not None:
                    cold.body = pack(cold.plain, "zstd" if number else "lz4", stream.storage)
            else:
                assert stream.trim_head(number) == min(number, len(model))
                for one in sorted(model)[:number]:
                    del model[one]
            live = sorted(model)
            assert stream.length == len(live)
            assert stream.first_id == (live[0] if live else 0)
            assert stream.last_entry_id == (live[-1] if live else 0)
            assert sum(live for _, _, live in stream.node_extents()) == stream.length
        within = [one for one in sorted(model) if low <= one <= high]
        assert stream.ids(low, high) == within
        assert stream.count(low, high) == len(within)
        taken = within[:count] if count else within
        assert b"".join(stream.range(low, high, count).parts) == b"".join(model[one] for one in taken)
        taken = within[::-1][:count] if count else within[::-1]
        assert b"".join(stream.range_backward(low, high, count).parts) == b"".join(model[one] for one in taken)
        behind = [one for one in sorted(model) if one > low]
        for n in range(1, len(behind) + 1):
            assert stream.nth_after(low, n) == behind[n - 1]
        assert stream.nth_after(low, len(behind) + 1) == 0
        twin = stream.copy()
        assert twin.ids(0, 1 << 70) == sorted(model)
    finally:
        segment.SEGMENT_BYTES, segment.SEGMENT_ENTRIES, segment.SEGMENT_STEP, storage.LAID_OUT_BYTES = sizes


def _trie_nodes(keys: list[bytes]) -> int:
    """A compressed radix tree's nodes, counted the obvious way."""
    if len(keys) == 1:
        return 1 + bool(keys[0])
    shared = 0
    while len({key[shared] for key in keys}) == 1:
        shared += 1
    heads: dict[int, list[bytes]] = {}
    for key in keys:
        heads.setdefault(key[shared], []).append(key[shared + 1 :])
    return bool(shared) + 1 + sum(map(_trie_nodes, heads.values()))


@given(st.sets(st.integers(0, ids.MAX_ID) | st.integers(0, 3000), min_size=1, max_size=40))
def test_radix_nodes(keys):
    """The number of radix tree nodes is that of a tree built node by node."""
    ordered = sorted(keys)
    assert radix_nodes(ordered) == _trie_nodes([key.to_bytes(16, "big") for key in ordered])


def test_packed_sizes():
    """Integers and words cost in a packed list what the format says."""
    assert [packed_int(n) for n in (0, 127, 128, -1, 4095, 4096, 1 << 20, 1 << 30, 1 << 40)] == [
        2, 2, 3, 3, 3, 4, 5, 6, 10,
    ]  # fmt: skip
    assert packed_word(b"007") == 5
    assert packed_word(b"12") == 2
    assert packed_word(b"x" * 63) == 65
    assert packed_word(b"x" * 64) == 67
    assert packed_word(b"x" * 200) == 204
