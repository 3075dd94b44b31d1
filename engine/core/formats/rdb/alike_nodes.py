"""A node of a stream whose entries all have the same field names and short values, as RDB: the quick way.

It says the same as the writer's node by node, entry by entry way (:mod:`engine.core.formats.rdb.stream_writer`), which
stands in where this one declines. The entries' frames are split at line ends all at once; every length is then compared
with what stands there, so that a value with a line end in it cannot be taken for two.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.formats.rdb.primitives import (
    SHORT_HEADS,
    SHORT_TAILS,
    SMALL_ELEMENTS,
    add_elements,
    element,
    length,
    listpack_of,
)
from engine.core.formats.rdb.stream_forms import SAME_FIELDS, signed

_SMALL = len(SMALL_ELEMENTS)
#: The element of each small number by its text, and the line before a word by the word's length.
_BY_TEXT = {b"%d" % value: one for value, one in enumerate(SMALL_ELEMENTS)}
_LINES = [b"$%d" % size for size in range(64)]
#: Lines of a frame before its first word: the pair, the ID with its length, the number of words.
_BEFORE = 4


def alike_node(data: bytes, ms: Sequence[int], seq: Sequence[int]) -> bytes | None:
    """The node of the frames in ``data``, whose IDs are given; None where the entries are not alike."""
    count = len(ms)
    lines = data.split(b"\r\n")
    if len(lines) < _BEFORE or not lines[3][1:].isdigit():
        return None
    words = int(lines[3][1:])
    stride = _BEFORE + 2 * words
    if len(lines) != count * stride + 1 or lines.pop() or lines[3::stride].count(lines[3]) != count:
        return None
    columns = [lines[at::stride] for at in range(_BEFORE + 1, stride, 2)]
    names = [column[0] for column in columns[::2]]
    if [column.count(name) for column, name in zip(columns[::2], names, strict=True)] != [count] * len(names):
        return None
    values: list[list[bytes]] = []
    for at, column in enumerate(columns):
        sizes = list(map(len, column))
        if max(sizes) >= len(_LINES) or list(map(_LINES.__getitem__, sizes)) != lines[_BEFORE + 2 * at :: stride]:
            return None
        if at & 1:
            values.append(_elements(column, sizes))
    parts = [element(count), SMALL_ELEMENTS[0], element(len(names))]
    add_elements(parts, names)
    parts.append(SMALL_ELEMENTS[0])
    size = len(values) + 4
    entries = [SMALL_ELEMENTS[SAME_FIELDS]] * (count * size)
    entries[1::size], entries[2::size] = _differences(ms), _differences(seq)
    for at, column in enumerate(values):
        entries[3 + at :: size] = column
    entries[size - 1 :: size] = [element(3 + len(names))] * count
    packed = listpack_of(parts + entries, 4 + len(names) + count * (4 + len(names)))
    return b"".join((length(16), ms[0].to_bytes(8, "big"), seq[0].to_bytes(8, "big"), length(len(packed)), packed))


def _differences(numbers: Sequence[int]) -> list[bytes]:
    """The elements of the differences from the first number."""
    first = numbers[0]
    small = SMALL_ELEMENTS
    if min(numbers) == first and max(numbers) - first < _SMALL:
        return [small[number - first] for number in numbers]
    return [element(signed(number - first)) for number in numbers]


def _elements(column: list[bytes], sizes: list[int]) -> list[bytes]:
    """The elements of short words."""
    heads, tails, small = SHORT_HEADS, SHORT_TAILS, _BY_TEXT.get
    distinct = set(column)
    if 4 * len(distinct) <= len(column):
        known = {word: element(word) for word in distinct}
        return [known[word] for word in column]
    return [
        small(word) or (heads[size] + word + tails[size] if not word.isdigit() and word[:1] != b"-" else element(word))
        for word, size in zip(column, sizes, strict=True)
    ]
