"""Conversion between text and typed columns: the fast conversion compared with the slow one, and round trips of every
type.
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

from spark_streams.columns import conversion
from spark_streams.columns.json_writer import stored_type
from spark_streams.columns.times import epochs_of

unhurried = settings(deadline=None)
UTC = datetime.UTC
NEW_YORK = pa.timestamp("us", "America/New_York")
TYPES = [
    pa.string(),
    pa.binary(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.timestamp("us"),
    pa.decimal128(10, 2),
    pa.decimal128(38, 18),
    pa.decimal128(5, 0),
    pa.timestamp("us", "America/New_York"),
    pa.timestamp("us", "+05:30"),
]
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


def same(first: list[Any], second: list[Any]) -> bool:
    return len(first) == len(second) and all(
        a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))
        for a, b in zip(first, second, strict=True)
    )


def numbers(column: Any) -> list[Any]:
    """Return the values, with dates and times as Arrow's integers, because Python does not support all of them."""
    return column.cast(stored_type(column.type)).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("target", TYPES, ids=str)
@unhurried
@given(
    column=st.one_of(
        st.lists(st.one_of(st.none(), TEXTS, SENSIBLE, st.binary(max_size=6)), max_size=5),
        st.lists(SENSIBLE, min_size=1, max_size=2),
    ),
    skip=st.integers(0, 2),
    epochs=st.sampled_from([None, 0, 1, 1000, 10**6]),
)
def test_the_fast_conversion_agrees_with_the_slow_one(
    target: Any, column: list[bytes | None], skip: int, epochs: int | None
) -> None:
    """The fast and the slow conversion give the same values and nulls for any texts, also of slices."""
    array = pa.array(column, pa.binary()).slice(skip)
    fast = conversion.from_text(array, target, epochs)
    assert fast.type == target
    assert same(numbers(fast), numbers(conversion.from_text_slowly(array, target, epochs)))


THERE_AND_BACK: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pa.string(), st.text(st.characters(codec="utf-8"))),
    (pa.binary(), st.binary()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
    (pa.timestamp("us", "America/New_York"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
    (pa.timestamp("us", "-03:30"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
    (pa.timestamp("us"), MOMENTS),
    (pa.decimal128(38, 18), st.decimals("-9999999999999999999", "9999999999999999999", places=18)),
    (pa.decimal128(10, 2), st.decimals("-99999999", "99999999", places=2)),
    (pa.time64("ns"), st.times()),
    (pa.duration("us"), st.timedeltas(datetime.timedelta(microseconds=-(2**63)), datetime.timedelta.max / 10)),
    (pa.null(), st.none()),
]


@pytest.mark.parametrize(("kind", "of"), THERE_AND_BACK, ids=[str(kind) for kind, _ in THERE_AND_BACK])
@unhurried
@given(data=st.data())
def test_every_type_has_a_text_that_reads_back(kind: Any, of: st.SearchStrategy[Any], data: st.DataObject) -> None:
    """Values and nulls of every type are unchanged after a round trip through text."""
    column = pa.array(data.draw(st.lists(st.one_of(st.none(), of), max_size=5)), kind)
    text = conversion.to_text(column)
    assert text.type == pa.binary()

    assert same(conversion.from_text(text, kind).to_pylist(), column.to_pylist())


@pytest.mark.parametrize(
    ("text", "target", "value"),
    [
        ("+5", pa.int32(), 5),
        ("0x10", pa.int32(), None),
        ("2147483648", pa.int32(), None),
        ("1.0", pa.int32(), None),
        ("TRUE", pa.bool_(), True),
        ("1", pa.bool_(), None),
        ("408918896702269219711730387391746", pa.decimal128(38, 18), None),
        ("1e30", pa.decimal128(38, 18), None),
        ("99999999999999999999.5", pa.decimal128(38, 18), decimal.Decimal("99999999999999999999.5")),
        ("1.005", pa.decimal128(5, 2), decimal.Decimal("1.01")),
        ("1234", pa.decimal128(5, 2), None),
        ("2013-07-04 12:30", pa.timestamp("us", "UTC"), datetime.datetime(2013, 7, 4, 12, 30, tzinfo=UTC)),
        ("1,234.50", pa.decimal128(10, 2), decimal.Decimal("1234.50")),
        (
            "2013-07-04 12:30 America/New_York",
            pa.timestamp("us", "UTC"),
            datetime.datetime(2013, 7, 4, 16, 30, tzinfo=UTC),
        ),
        ("2013-07-04 12:30 Nowhere/Land", pa.timestamp("us", "UTC"), None),
        ("2013-07-04 12:30:00", NEW_YORK, datetime.datetime(2013, 7, 4, 16, 30, tzinfo=UTC)),
        ("2013-07-04 12:30:00+02:00", NEW_YORK, datetime.datetime(2013, 7, 4, 10, 30, tzinfo=UTC)),
        ("2013-07-04", NEW_YORK, datetime.datetime(2013, 7, 4, 4, tzinfo=UTC)),
        ("2013-03-10 02:30:00", NEW_YORK, datetime.datetime(2013, 3, 10, 7, 30, tzinfo=UTC)),
        ("2013-11-03 01:30:00", NEW_YORK, datetime.datetime(2013, 11, 3, 5, 30, tzinfo=UTC)),
        ("2038-04-01 00:00:00", NEW_YORK, datetime.datetime(2038, 4, 1, 4, tzinfo=UTC)),
        ("20130704", pa.timestamp("us"), datetime.datetime(2013, 7, 4)),
        ("20130704", NEW_YORK, datetime.datetime(2013, 7, 4, 4, tzinfo=UTC)),
        ("20130704", pa.date32(), datetime.date(2013, 7, 4)),
        ("20130732", pa.timestamp("us"), None),
        ("20130732", pa.date32(), None),
        ("20130704T123000Z", pa.timestamp("us", "UTC"), datetime.datetime(2013, 7, 4, 12, 30, tzinfo=UTC)),
        ("20130704T1230+0200", pa.timestamp("us", "UTC"), datetime.datetime(2013, 7, 4, 10, 30, tzinfo=UTC)),
        ("20130704 123000.5", pa.timestamp("us"), datetime.datetime(2013, 7, 4, 12, 30, 0, 500_000)),
        ("1372941000", NEW_YORK, None),
        ("1372941000001", pa.timestamp("us"), None),
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
def test_texts_are_read_as_by_spark(text: str, target: Any, value: Any) -> None:
    """Texts are read as by Spark's CSV source; times without a zone are in the zone of the type."""
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


def test_a_type_without_a_text_is_refused() -> None:
    """Writing a nested value as plain text is an error."""
    with pytest.raises(TypeError, match="no text form"):
        conversion.to_text(pa.array([[1]]))
