"""JSON: rows and nested values read back, and JSON read by Arrow's parser compared with JSON read value by value."""

# ruff: noqa: DTZ001 - Spark's timestamps in Python have no zone

from __future__ import annotations

import datetime
import decimal
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as spark

from spark_streams.columns import json_values, json_writer
from spark_streams.columns.conversion import is_nested
from spark_streams.columns.json_values import Converted
from spark_streams.columns.json_writer import stored_type
from spark_streams.write.encoding import WriteSchema, to_text
from tests.spark_streams.columns.test_values import SENSIBLE, UTC, VALUES, columns
from tests.suite.long import FULL

unhurried = settings(deadline=None, max_examples=1500 if FULL else 100)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)


def nested(kind: Any, of: st.SearchStrategy[Any]) -> list[tuple[Any, st.SearchStrategy[Any]]]:
    """Return arrays, structs and maps of the type with strategies for their values."""
    maybe = st.one_of(st.none(), of)
    struct, structs = pa.struct([("a", kind), ("b c", pa.string())]), st.fixed_dictionaries({"a": maybe, "b c": TEXTS})
    return [
        (pa.list_(kind), st.lists(maybe, max_size=3)),
        (struct, structs),
        (pa.map_(pa.string(), kind), st.dictionaries(TEXTS, maybe, max_size=3).map(lambda found: [*found.items()])),
        (pa.list_(struct), st.lists(st.one_of(st.none(), structs), max_size=3)),
    ]


NESTED = [shape for pair in VALUES for shape in nested(*pair)]


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
@given(columns([*VALUES, *NESTED], 3))
def test_rows_and_nested_values_round_trip(column: Any) -> None:
    """Columns of every type, alone and nested, with nulls and of any year, are unchanged after a round trip as members
    of a row and as a field, and each value has the same JSON in a column as alone.
    """
    texts = json_writer.column(column)
    assert texts.to_pylist() == [json_writer.column(column.slice(at, 1))[0].as_py() for at in range(len(column))]
    expected = column, pa.nulls(len(column), pa.bool_()).fill_null(False)
    names = ["plain", 'na"me\\ é']
    rows = json_writer.rows(names, [column, column], len(column))
    for read in (json_values.members, json_values.members_slowly):
        for found in read(rows, dict.fromkeys(names, column.type)).values():
            same(found, expected)
    assert all(isinstance(json.loads(each), dict) for each in rows.to_pylist())
    if is_nested(column.type):
        for of_field in (json_values.from_text, json_values.from_text_slowly):
            same(of_field(to_text(column), column.type), expected)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (pa.int32(), -5),
        (pa.float64(), 1.5),
        (pa.bool_(), True),
        (pa.decimal128(5, 2), decimal.Decimal("1.50")),
        (pa.date32(), datetime.date(2013, 1, 1)),
        (pa.timestamp("us"), datetime.datetime(2013, 1, 1, 5)),
        (pa.timestamp("us", "UTC"), datetime.datetime(2013, 1, 1, 5, tzinfo=UTC)),
        (pa.binary(), b"\xff\r\n"),
        (pa.string(), '"'),
    ],
)
def test_keys_of_maps_round_trip(kind: Any, key: Any) -> None:
    """Keys of maps, which are strings in JSON, are read back with their type."""
    shape = pa.map_(kind, pa.int32())
    column = pa.array([[(key, 7)], None, []], shape)
    found, wrong = json_values.from_text_slowly(to_text(column), shape)
    assert wrong is None
    assert found.to_pylist() == column.to_pylist()


def test_numbers_that_json_does_not_have() -> None:
    """NaN and infinities are written as strings, as Spark's to_json does."""
    column = pa.array([[math.nan, math.inf, -math.inf]], pa.list_(pa.float64()))
    assert to_text(column).to_pylist() == [b'["NaN","Infinity","-Infinity"]']
    found, _ = json_values.from_text_slowly(to_text(column), column.type)
    assert math.isnan(found.to_pylist()[0][0])


def test_nulls_are_left_out_or_written_as_a_text() -> None:
    """A null is omitted, or written as the text of `nullValue`, in columns and in the map."""
    batch = pa.RecordBatch.from_pydict(
        {
            "n": pa.array([1, None], pa.int32()),
            "fields": pa.array([[("a", "x"), ("b", None)], None], pa.map_(pa.string(), pa.string())),
        }
    )
    texts = spark.MapType(spark.StringType(), spark.StringType())
    schema = spark.StructType().add("n", spark.IntegerType()).add("fields", texts)
    plain, filled = WriteSchema.of(schema), WriteSchema.of(schema, null_value="\\N")
    assert plain.columns(batch)[0][1].to_pylist() == [b"1", None]
    assert filled.columns(batch)[0][1].to_pylist() == [b"1", b"\\N"]
    assert [part.to_pylist() for part in plain.pairs(batch) or ()] == [[0, 1, 1], [b"a"], [b"x"]]
    assert [part.to_pylist() for part in filled.pairs(batch) or ()] == [[0, 2, 2], [b"a", b"b"], [b"x", b"\\N"]]


def test_a_null_struct_of_fields_that_may_not_be_null() -> None:
    """A null struct whose fields are not nullable is written as null, also in a list."""
    kind = pa.struct([pa.field("at", pa.timestamp("us", "UTC"), nullable=False)])
    times = pa.array([0, None], pa.timestamp("us", "UTC"))
    column = pa.StructArray.from_arrays([times], fields=list(kind), mask=pa.array([False, True]))
    assert json_writer.column(column).to_pylist() == ['{"at":"1970-01-01T00:00:00Z"}', None]
    listed = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), column)
    assert json_writer.column(listed).to_pylist() == ['[{"at":"1970-01-01T00:00:00Z"},null]']


# -- Arrow's parser ---------------------------------------------------------------------------------------------------

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
ANY = st.recursive(
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


@unhurried
@given(data=st.data(), kind=KINDS, other=KINDS, skip=st.integers(0, 1))
def test_members_are_the_same(data: st.DataObject, kind: Any, other: Any, skip: int) -> None:
    """Both parsers read the same members from valid, damaged and wrongly typed objects."""
    row = pa.struct([("a", kind), ("é", other)])
    wanted = st.one_of(value_of(row), ANY, st.just('{"a": 1, "a": 2}'))
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
    texts = data.draw(st.lists(st.one_of(value_of(kind), ANY).flatmap(odd), max_size=5))
    column = pa.array(texts, pa.binary()).slice(skip)
    same(json_values.from_text(column, kind), json_values.from_text_slowly(column, kind))


def test_valid_rows_do_not_use_the_slow_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Valid rows are read by Arrow only; one malformed row sends at most 101 rows to the slow parser."""
    inner = pa.struct([("x", pa.list_(pa.int32())), ("y", pa.timestamp("us")), ("day", pa.list_(pa.date32()))])
    kinds = {"a": inner, "n": pa.int64(), "f": pa.float32(), "s": pa.string(), "t": pa.timestamp("us", "UTC")}
    text = '{"a":{"x":[1,null],"day":["2013-07-04"]},"n":7,"f":0.1,"s":"é","t":"2013-07-04T12:00:00Z","m":{"b":[1]}}'
    texts = [text.encode()] * 1600 + [b"", None]
    asked: list[int] = []
    slowly = json_values.members_slowly

    def counting(column: Any, *rest: Any) -> Any:
        asked.append(len(column))
        return slowly(column, *rest)

    monkeypatch.setattr(json_values, "members_slowly", counting)
    json_values.members(pa.array(texts, pa.binary()), kinds)
    assert asked == []
    texts[800] = b'{"a":'
    json_values.members(pa.array(texts, pa.binary()), kinds)
    assert sum(asked) <= 101
