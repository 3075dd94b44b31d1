"""Replies of every type, in both protocols."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.protocol.replies import (
    NIL_ARRAY,
    OK,
    Array,
    ByKey,
    CommandError,
    Frames,
    Map,
    Pages,
    Push,
    Raw,
    Set,
    Several,
    Simple,
    Verbatim,
)
from engine.wire.encode import LONG, encode, encoded, pages_of

CASES: list[tuple[Any, bytes, bytes]] = [
    (0, b":0\r\n", b":0\r\n"),
    (-7, b":-7\r\n", b":-7\r\n"),
    (1 << 62, b":4611686018427387904\r\n", b":4611686018427387904\r\n"),
    (True, b":1\r\n", b":1\r\n"),
    (b"", b"$0\r\n\r\n", b"$0\r\n\r\n"),
    (b"a\r\nb", b"$4\r\na\r\nb\r\n", b"$4\r\na\r\nb\r\n"),
    (None, b"$-1\r\n", b"_\r\n"),
    (NIL_ARRAY, b"*-1\r\n", b"_\r\n"),
    (OK, b"+OK\r\n", b"+OK\r\n"),
    (1.5, b"$3\r\n1.5\r\n", b",1.5\r\n"),
    (3.0, b"$1\r\n3\r\n", b",3\r\n"),
    (float("inf"), b"$3\r\ninf\r\n", b",inf\r\n"),
    (Verbatim(b"abc"), b"$3\r\nabc\r\n", b"=7\r\ntxt:abc\r\n"),
    ([], b"*0\r\n", b"*0\r\n"),
    ([1, b"x", [None]], b"*3\r\n:1\r\n$1\r\nx\r\n*1\r\n$-1\r\n", b"*3\r\n:1\r\n$1\r\nx\r\n*1\r\n_\r\n"),
    ((b"x",), b"*1\r\n$1\r\nx\r\n", b"*1\r\n$1\r\nx\r\n"),
    (Map([b"k", 1]), b"*2\r\n$1\r\nk\r\n:1\r\n", b"%1\r\n$1\r\nk\r\n:1\r\n"),
    (Set([b"k"]), b"*1\r\n$1\r\nk\r\n", b"~1\r\n$1\r\nk\r\n"),
    (
        Push([b"message", b"c", b"m"]),
        b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
        b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
    ),
    (Raw(b"*1\r\n:5\r\n"), b"*1\r\n:5\r\n", b"*1\r\n:5\r\n"),
    (Frames(2, [b"A", memoryview(b"xBx")[1:2]]), b"*2\r\nAB", b"*2\r\nAB"),
    (
        Array([None, Several(2, [b":1\r\n", b"$1\r\nx\r\n"])]),
        b"*3\r\n$-1\r\n:1\r\n$1\r\nx\r\n",
        b"*3\r\n_\r\n:1\r\n$1\r\nx\r\n",
    ),
    (CommandError(b"ERR a\r\nb"), b"-ERR a  b\r\n", b"-ERR a  b\r\n"),
    ([CommandError(b"ERR x"), Simple(b"y")], b"*2\r\n-ERR x\r\n+y\r\n", b"*2\r\n-ERR x\r\n+y\r\n"),
]


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


VALUES = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([b"v" * (LONG - 1), b"v" * LONG, None, 7, OK, Verbatim(b"x"), [b"a", b"b"]]),
)


@given(st.lists(st.binary(max_size=12), max_size=30), st.lists(VALUES, max_size=3), st.sampled_from([2, 3]))
def test_a_list_of_strings_is_encoded_like_single_values(strings: list[bytes], others: list[Any], proto: int) -> None:
    """A list of strings, at once or in pages, has the bytes of its values encoded one by one."""
    values = [*strings, *others]
    expected = b"*%d\r\n" % len(values) + b"".join(encoded(value, proto) for value in values)
    assert encoded(values, proto) == expected
    assert encoded(pages(list, len(values), strings, others), proto) == expected


@pytest.mark.parametrize(("reply", "resp2", "resp3"), CASES, ids=[repr(case[0])[:40] for case in CASES])
def test_each_type_of_reply_has_its_form_in_both_protocols(reply: Any, resp2: bytes, resp3: bytes) -> None:
    assert encoded(reply, 2) == resp2
    assert encoded(reply, 3) == resp3


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
