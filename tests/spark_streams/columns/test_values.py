"""Conversion between text and typed columns: whole columns compared with single values, and round trips of every type
and year.

`tests/spark/test_formats.py` compares the values with those of Spark's CSV source.
"""

# ruff: noqa: DTZ001 - Spark's timestamps in Python have no zone

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_streams.columns import conversion, times
from spark_streams.columns.json_writer import stored_type
from spark_streams.columns.scalars import dump
from spark_streams.columns.times import epochs_of
from tests.suite.long import FULL

unhurried = settings(deadline=None, max_examples=3000 if FULL else 200)
UTC = datetime.UTC
NEW_YORK = pa.timestamp("us", "America/New_York")

PIECES = st.sampled_from(
    [
        "0",
        "1",
        "9",
        "12",
        "-",
        "+",
        ".",
        "e",
        "E5",
        "x",
        " ",
        ":",
        "T",
        "Z",
        "2013",
        "-01",
        "-02-28",
        "00:00:00",
        "nan",
        "Infinity",
        "true",
        "FALSE",
        "0000",
        "9999",
        "99999999999999999999",
        ".5",
        "+01:00",
        "é",
        "\r\n",
        "\0",
    ]
)
TEXTS = st.lists(PIECES, max_size=6).map("".join).map(str.encode)
MOMENTS = st.datetimes(datetime.datetime(1, 1, 3), datetime.datetime(9999, 12, 30))
SENSIBLE = st.one_of(
    st.integers(10**7, 10**17).map(str),
    st.integers(0, 10**12).map(lambda number: f"{number:013}"),
    st.integers(-(2**64), 2**64).map(str),
    st.floats().map(repr),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.dates().map(str),
    st.dates().map(lambda day: f"{day:%Y%m%d}"),
    MOMENTS.map(lambda moment: f"{moment}"),
    MOMENTS.map(lambda moment: f"{moment:%Y-%m-%dT%H:%M:%S}Z"),
    MOMENTS.map(lambda moment: f"{moment}+0130"),
    st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2100, 1, 1)).map(str),
    st.datetimes(datetime.datetime(2013, 3, 10, 1), datetime.datetime(2013, 3, 10, 4)).map(lambda at: f"{at:%F %T}"),
    st.datetimes(datetime.datetime(2013, 11, 3), datetime.datetime(2013, 11, 3, 3)).map(lambda at: f"{at:%F %T}"),
    st.sampled_from(["true", "True", "false", "1", "yes", ""]),
).map(str.encode)
_LIKE_A_TIME = (
    r"[+-]?[0-9]{1,9}-[0-9]{1,3}-[0-9]{1,3}([T ][0-9]{0,3}(:[0-9]{0,3}){0,3}(\.[0-9]{0,12})?)?"
    r"( ?[-+A-Za-z0-9:/]{0,9})?"
)
_LIKE_AN_INTERVAL = r"[+-]?P([+-]?[0-9]{0,20}[YMWD]){0,3}(T([+-]?[0-9]{0,20}(\.[0-9]{0,12})?[HMS]){0,3})?"
HOSTILE = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=30).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.from_regex(_LIKE_A_TIME).map(str.encode),
    st.from_regex(_LIKE_AN_INTERVAL).map(str.encode),
    st.sampled_from([b"-P106751991DT4H54.775808S", b"9" * 5000, b"1e999999999", b"[" * 3000, b"{" * 3000, b'"' * 9]),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
        max_leaves=5,
    ).map(lambda value: dump(value).encode("utf-8", "surrogatepass")),
)

# -- types and their values

_YEARS = [-290_307, -1, 0, 1, 2, 1582, 1900, 1969, 1970, 2037, 2038, 9998, 9999, 10_000, 32_767, 40_000, 294_246]
MICROS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.builds(
        lambda year, offset: times.days_of(year, 1, 1) * times.DAY + offset,
        st.sampled_from(_YEARS),
        st.integers(-2 * times.DAY, 2 * times.DAY),
    ),
    st.sampled_from([-(2**63), 2**63 - 1]),
)
DAYS = st.one_of(st.integers(-(2**31), 2**31 - 1), MICROS.map(lambda micros: micros // times.DAY))
ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Apia", "+18:00", "-11:30", "+05:30"]
_USUAL = st.integers(-(10**5), 10**5)
#: Types, and strategies for their values. Dates and times may be of any year, and most are of usual years.
VALUES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pa.string(), st.text(st.characters(codec="utf-8"))),
    (pa.binary(), st.binary()),
    *(
        (kind, st.integers(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1))
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    ),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.one_of(_USUAL, DAYS)),
    *(
        (pa.timestamp("us", zone), st.one_of(_USUAL.map(lambda number: number * 10**9), MICROS))
        for zone in (None, *ZONES)
    ),
    (pa.decimal128(38, 18), st.decimals("-9999999999999999999", "9999999999999999999", places=18)),
    (pa.decimal128(10, 2), st.decimals("-99999999", "99999999", places=2)),
    (pa.decimal128(5, 0), st.integers(-99999, 99999).map(decimal.Decimal)),
    (pa.time64("ns"), st.times()),
    (pa.duration("us"), MICROS),
]


def same(first: list[Any], second: list[Any]) -> bool:
    return len(first) == len(second) and all(
        a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))
        for a, b in zip(first, second, strict=True)
    )


def numbers(column: Any) -> list[Any]:
    """Return the values, with dates and times as Arrow's integers, because Python does not support all of them."""
    return column.cast(stored_type(column.type)).to_pylist()  # type: ignore[no-any-return]


@unhurried
@given(
    kind=st.sampled_from([*(kind for kind, _ in VALUES), pa.null()]),
    column=st.one_of(
        st.lists(st.one_of(st.none(), TEXTS, SENSIBLE, HOSTILE), max_size=5),
        st.lists(SENSIBLE, min_size=1, max_size=2),
    ),
    skip=st.integers(0, 2),
    epochs=st.sampled_from([None, 0, 1, 1000, 10**6]),
)
def test_a_column_is_read_as_its_texts_are(
    kind: Any, column: list[bytes | None], skip: int, epochs: int | None
) -> None:
    """Whole columns and single texts give the same values and nulls for any texts, without an error, also in slices."""
    array = pa.array(column, pa.binary()).slice(skip)
    fast = conversion.from_text(array, kind, epochs)
    assert fast.type == kind
    assert same(numbers(fast), numbers(conversion.from_text_slowly(array, kind, epochs)))


def columns(kinds: list[tuple[Any, st.SearchStrategy[Any]]], most: int = 5) -> st.SearchStrategy[Any]:
    """Generate arrays of these types with nulls."""
    return st.sampled_from(kinds).flatmap(
        lambda pair: st.lists(st.one_of(st.none(), pair[1]), max_size=most).map(lambda found: pa.array(found, pair[0]))
    )


@unhurried
@given(columns([*VALUES, (pa.null(), st.none())]))
def test_every_value_has_a_text_that_reads_back(column: Any) -> None:
    """Values and nulls of every type and year are unchanged after a round trip through text, and each value has the
    same text in a column as alone.
    """
    text = conversion.to_text(column)
    assert text.type == pa.binary()
    assert same(numbers(conversion.from_text(text, column.type)), numbers(column))
    assert text.to_pylist() == [conversion.to_text(column.slice(at, 1))[0].as_py() for at in range(len(column))]


@pytest.mark.parametrize(
    ("text", "target", "value"),
    [
        ("20130704", pa.timestamp("us"), datetime.datetime(2013, 7, 4)),
        ("20130704", NEW_YORK, datetime.datetime(2013, 7, 4, 4, tzinfo=UTC)),
        ("20130704", pa.date32(), datetime.date(2013, 7, 4)),
        ("20130704T123000Z", pa.timestamp("us", "UTC"), datetime.datetime(2013, 7, 4, 12, 30, tzinfo=UTC)),
        ("20130704T1230+0200", pa.timestamp("us", "UTC"), datetime.datetime(2013, 7, 4, 10, 30, tzinfo=UTC)),
        ("20130704 123000.5", pa.timestamp("us"), datetime.datetime(2013, 7, 4, 12, 30, 0, 500_000)),
        ("12:30", pa.time64("ns"), datetime.time(12, 30)),
        ("T07:05:09.123456789", pa.time64("ns"), datetime.time(7, 5, 9, 123_456)),
        ("24:00", pa.time64("ns"), None),
        ("12", pa.time64("ns"), None),
        ("P1DT2H3M4.5S", pa.duration("us"), datetime.timedelta(1, 7384, 500_000)),
        ("-PT1H", pa.duration("us"), datetime.timedelta(hours=-1)),
        ("PT-0.25S", pa.duration("us"), datetime.timedelta(microseconds=-250_000)),
        ("P2W", pa.duration("us"), datetime.timedelta(14)),
        ("P", pa.duration("us"), None),
        ("PT", pa.duration("us"), None),
        ("P1Y", pa.duration("us"), None),
        ("P999999999999D", pa.duration("us"), None),
        ("", pa.int32(), None),
        ("", pa.string(), ""),
    ],
)
def test_texts_that_sparks_csv_source_does_not_read(text: str, target: Any, value: Any) -> None:
    """Compact dates, times of day and intervals are read as ISO 8601 writes them."""
    found = conversion.array_in(conversion.from_text(pa.array([text.encode()]), target), "UTC")
    assert found.to_pylist() == [value]


@pytest.mark.parametrize(
    ("text", "form", "value"),
    [
        ("1372941000", "epoch", datetime.datetime(2013, 7, 4, 12, 30)),
        ("1372941000.25", "epoch", datetime.datetime(2013, 7, 4, 12, 30, 0, 250_000)),
        ("1372941000001", "epoch", datetime.datetime(2013, 7, 4, 12, 30, 0, 1000)),
        ("1372941000000001", "epoch", datetime.datetime(2013, 7, 4, 12, 30, 0, 1)),
        ("001372941000", "epoch", datetime.datetime(2013, 7, 4, 12, 30)),
        ("2013", "epoch", datetime.datetime(2013, 1, 1)),
        ("2013", "seconds", datetime.datetime(1970, 1, 1, 0, 33, 33)),
        ("-1", "seconds", datetime.datetime(1969, 12, 31, 23, 59, 59)),
        ("20130704", "milliseconds", datetime.datetime(1970, 1, 1, 5, 35, 30, 704_000)),
        ("20130704", "microseconds", datetime.datetime(1970, 1, 1, 0, 0, 20, 130_704)),
        ("2013-07-04", "seconds", datetime.datetime(2013, 7, 4)),
        ("999999999999999", "seconds", None),
    ],
)
def test_numbers_are_times_with_a_numeric_format(text: str, form: str, value: Any) -> None:
    """With a numeric timestampFormat, numbers count its units since 1970, and other texts are read as usual."""
    column = pa.array([text.encode()])
    target = pa.timestamp("us")
    assert conversion.from_text(column, target, epochs_of(form)).to_pylist() == [value]
