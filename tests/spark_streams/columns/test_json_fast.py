"""JSON read by Arrow's parser, compared with JSON read value by value."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_streams.columns import json_values
from spark_streams.columns.conversion import is_nested
from spark_streams.columns.json_values import Converted
from spark_streams.columns.json_writer import stored_type
from tests.spark_streams.columns.test_values import SENSIBLE
from tests.suite.long import FULL

unhurried = settings(deadline=None, max_examples=150 if FULL else 40)
NAMES = ["a", "b", "", "é"]
PLAIN = [
    pa.int8(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.date32(),
    pa.binary(),
    pa.timestamp("us", "UTC"),
    pa.timestamp("us", "America/New_York"),
    pa.timestamp("us"),
    pa.decimal128(10, 2),
]
KINDS = st.recursive(
    st.sampled_from(PLAIN),
    lambda inner: st.one_of(
        inner.map(lambda kind: pa.list_(pa.field("element", kind))),
        st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=2).map(lambda of: pa.struct([*of.items()])),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
    ),
    max_leaves=3,
)
NUMBERS = [
    "0",
    "-0",
    "1",
    "300",
    "1.0",
    "-1.5e3",
    "1e400",
    "1E5",
    "01",
    "1.",
    "+1",
    "9223372036854775808",
    "NaN",
    "-Infinity",
    "9" * 5000,
    "0.1",
    "1e-400",
]
WORDS = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(
        [
            "null",
            "true",
            "false",
            "tru",
            '"\\ud800"',
            '"\\ud83d\\ude00"',
            '"\\u0000"',
            '"\\x"',
            '"x\ty"',
            '"NaN"',
            '"Infinity"',
            '""',
            "'x'",
            '"a\\nb"',
            "[]",
            "{}",
        ]
    ),
    st.text(max_size=4).map(lambda text: json.dumps(text, ensure_ascii=False)),
    SENSIBLE.map(lambda text: json.dumps(text.decode())),
)
VALUES = st.recursive(
    WORDS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda found: f"[{','.join(found)}]"),
        st.lists(st.tuples(st.sampled_from(NAMES), inner), max_size=3).map(
            lambda pairs: f"{{{', '.join(f'{json.dumps(name)}: {value}' for name, value in pairs)}}}"
        ),
    ),
    max_leaves=4,
)


def value_of(kind: Any) -> st.SearchStrategy[str]:
    """Generate texts that are mostly valid for the type, so that Arrow's parser accepts some of them."""
    types = pa.types
    if types.is_list(kind):
        return st.lists(value_of(kind.value_type), max_size=3).map(lambda found: f"[{','.join(found)}]")
    if types.is_struct(kind):
        each = {field.name: st.one_of(st.none(), value_of(field.type)) for field in kind}
        return st.fixed_dictionaries(each).map(
            lambda found: (
                f"{{{','.join(f'{json.dumps(name)}:{text}' for name, text in found.items() if text is not None)}}}"
            )
        )
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return st.one_of(st.integers(-128, 127).map(str), st.just("null"), st.sampled_from(NUMBERS[:4]))
    if types.is_boolean(kind):
        return st.sampled_from(["true", "false", "null"])
    return st.one_of(st.text(max_size=3).map(json.dumps), SENSIBLE.map(lambda text: json.dumps(text.decode())))


def odd(text: str) -> st.SearchStrategy[bytes | None]:
    """Generate the text itself or a damaged version."""
    data = text.encode("utf-8", "surrogatepass")
    return st.one_of(
        *[st.just(data)] * 6,
        st.sampled_from(
            [
                None,
                b"",
                b"\xff",
                b" " + data,
                data + b" ",
                data + data,
                data[:-1],
                data[1:],
                data + b"\n",
                data.replace(b",", b",\n"),
                b'{"a":"\xff"}',
                b"{" * 2000,
                b'{"b":' * 900 + b"1" + b"}" * 900,
                b'{"b":' + b"[" * 1200 + b"]" * 1200 + b"}",
                b"\xef\xbb\xbf" + data,
                data + b",",
                b"1",
                b"[1]",
                data + b',"x":[2]',
                b"{} {}",
                b'{"a":{}',
                b'{"b":1}}',
            ]
        ),
    )


def shown(column: Any) -> str:
    """Return the values as text: dates and times as integers, zeros without a sign."""
    return repr(column.cast(stored_type(column.type)).to_pylist()).replace("-0.0", "0.0")


def same(fast: Converted, slow: Converted) -> None:
    """Assert that both results have equal values, treating NaNs as equal, and the same malformed rows."""
    assert fast[0].type == slow[0].type
    assert shown(fast[0]) == shown(slow[0])
    wrong = [
        [False] * len(column) if malformed is None else malformed.to_pylist() for column, malformed in (fast, slow)
    ]
    assert wrong[0] == wrong[1]


@unhurried
@given(data=st.data(), kind=KINDS, other=KINDS, skip=st.integers(0, 1))
def test_members_are_the_same(data: st.DataObject, kind: Any, other: Any, skip: int) -> None:
    """Both parsers read the same members from valid, damaged and wrongly typed objects."""
    row = pa.struct([("a", kind), ("é", other)])
    wanted = st.one_of(value_of(row), VALUES, st.just('{"a": 1, "a": 2}'))
    texts = data.draw(st.lists(wanted.flatmap(odd), max_size=5))
    column = pa.array(texts, pa.binary()).slice(skip)
    kinds = {"a": kind, "é": other}
    fast, slow = json_values.members(column, kinds), json_values.members_slowly(column, kinds)
    assert fast.keys() == slow.keys()
    for name in kinds:
        same(fast[name], slow[name])


@unhurried
@given(data=st.data(), kind=KINDS.filter(is_nested), skip=st.integers(0, 1))
def test_nested_values_are_the_same(data: st.DataObject, kind: Any, skip: int) -> None:
    """Both parsers read the same lists, structs and maps from separate fields."""
    texts = data.draw(st.lists(st.one_of(value_of(kind), VALUES).flatmap(odd), max_size=5))
    column = pa.array(texts, pa.binary()).slice(skip)
    same(json_values.from_text(column, kind), json_values.from_text_slowly(column, kind))


@pytest.mark.parametrize(
    "kind",
    [
        pa.int64(),
        pa.float32(),
        pa.string(),
        pa.timestamp("us", "UTC"),
        pa.list_(pa.date32()),
        pa.struct([("x", pa.list_(pa.int32())), ("y", pa.timestamp("us"))]),
    ],
    ids=str,
)
def test_valid_rows_do_not_use_the_slow_parser(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Valid rows are read by Arrow only; one malformed row sends at most 101 rows to the slow parser."""
    value = {
        pa.int64(): "7",
        pa.float32(): "0.1",
        pa.string(): '"é"',
        pa.timestamp("us", "UTC"): '"2013-07-04T12:00:00Z"',
        pa.list_(pa.date32()): '["2013-07-04",null]',
    }.get(kind, '{"x":[1,null],"z":{}}')
    texts = [f'{{"a":{value},"more":{{"b":[1]}}}}'.encode()] * 1600 + [b"", None]
    asked: list[int] = []
    slowly = json_values.members_slowly

    def counting(column: Any, *rest: Any) -> Any:
        asked.append(len(column))
        return slowly(column, *rest)

    column = pa.array(texts, pa.binary())
    expected = slowly(column, {"a": kind})
    monkeypatch.setattr(json_values, "members_slowly", counting)
    same(json_values.members(column, {"a": kind})["a"], expected["a"])
    assert asked == []
    texts[800] = b'{"a":'
    column = pa.array(texts, pa.binary())
    found = json_values.members(column, {"a": kind})["a"]
    assert sum(asked) <= 101
    same(found, slowly(column, {"a": kind})["a"])
