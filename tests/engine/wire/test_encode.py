"""Replies of every type, in both protocols."""

from __future__ import annotations

from typing import Any

import pytest

from engine.core.protocol.replies import ByKey, Map, Pages, Set, Several, Simple
from engine.wire.encode import LONG, encode, encoded, pages_of


def pages(kind: type[list[Any]], size: int, *pages: list[Any]) -> Pages:
    return Pages(kind, size, iter(pages))


LONG_REPLIES: list[tuple[Any, Any]] = [
    (lambda: pages(list, 0), []),
    (lambda: pages(list, 3, [1], [], [b"x", None]), [1, b"x", None]),
    (lambda: pages(Map, 4, [b"a", 1, b"b"], [2]), Map([b"a", 1, b"b", 2])),
    (lambda: pages(Set, 2, [b"a"], [b"b"]), Set([b"a", b"b"])),
    (
        lambda: pages(ByKey, 2, [(b"s", pages(list, 2, [1], [2]))], [(b"t", [3])]),
        ByKey([(b"s", [1, 2]), (b"t", [3])]),
    ),
    (lambda: pages(list, 3, [Several(2, [b":1\r\n", b":2\r\n"]), pages(list, 0)]), [1, 2, []]),
    (lambda: [pages(Map, 2, [b"a", b"b"])], [Map([b"a", b"b"])]),
]


@pytest.mark.parametrize("proto", [2, 3])
@pytest.mark.parametrize(("long", "short"), LONG_REPLIES)
def test_pages_have_the_bytes_of_the_whole(long: Any, short: Any, proto: int) -> None:
    """A long reply has the same bytes page by page, at once, and without pages."""
    assert encoded(long(), proto) == encoded(short, proto)
    if isinstance(long(), Pages):
        assert b"".join(b"".join(page) for page in pages_of(long(), proto)) == encoded(short, proto)


def test_a_long_value_is_handed_on_without_a_copy() -> None:
    value = b"v" * LONG
    out: list[bytes | memoryview] = []
    encode([value], 2, out)
    assert any(part is value for part in out)
    assert b"".join(out) == b"*1\r\n$%d\r\n%b\r\n" % (LONG, value)


def test_a_subclass_is_encoded_as_its_base_class() -> None:
    """An instance of a subclass is encoded as one of its base class."""

    class Special(Simple):
        pass

    assert encoded(Special(b"hm")) == b"+hm\r\n"


def test_a_value_of_another_type_is_an_error() -> None:
    """A value that is no reply raises an error that names its type."""
    with pytest.raises(TypeError, match="dict is not a type of reply"):
        encoded({})
