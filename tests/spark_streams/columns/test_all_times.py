"""Dates, times and intervals of Spark's whole range, read and written with the values of Spark's CSV source."""

from __future__ import annotations

import math
import os
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_streams.columns import conversion, json_values, json_writer, times
from spark_streams.columns.scalars import dump
from spark_streams.config import time_zones
from tests.spark_streams.columns.test_values import numbers, same
from tests.suite.long import FULL

unhurried = settings(deadline=None, max_examples=int(os.environ.get("COLUMN_EXAMPLES", "100" if FULL else "25")))
ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Apia", "+18:00", "-11:30"]
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
KINDS: list[tuple[Any, st.SearchStrategy[int]]] = [
    (pa.date32(), DAYS),
    (pa.timestamp("us"), MICROS),
    (pa.duration("us"), MICROS),
    *((pa.timestamp("us", zone), MICROS) for zone in ZONES),
]
each_kind = pytest.mark.parametrize(("kind", "of"), KINDS, ids=[str(kind) for kind, _ in KINDS])


def deep(kind: Any) -> Any:
    """Return a struct type with the given type in a list, as key and value of a map, and in a struct."""
    return pa.struct([("list", pa.list_(kind)), ("map", pa.map_(kind, kind)), ("struct", pa.struct([("one", kind)]))])


@each_kind
@unhurried
@given(data=st.data())
def test_fields_of_any_year_read_back(kind: Any, of: st.SearchStrategy[int], data: st.DataObject) -> None:
    """Nulls, and dates, times and intervals of any year, are unchanged after a round trip through text."""
    column = pa.array(data.draw(st.lists(st.one_of(st.none(), of), max_size=4)), kind)
    assert numbers(conversion.from_text(conversion.to_text(column), kind)) == numbers(column)


@each_kind
@unhurried
@given(data=st.data())
def test_json_of_any_year_reads_back(kind: Any, of: st.SearchStrategy[int], data: st.DataObject) -> None:
    """Every value is unchanged after a round trip through JSON, alone and nested in lists, structs and maps."""
    found = data.draw(st.lists(of, min_size=1, max_size=3))
    for target, value in ((kind, found[0]), (deep(kind), nested(found))):
        column = pa.array([value, None], target)
        (text, _) = json_writer.rows(["x"], [column], 2).to_pylist()
        (back, wrong) = json_values.members(pa.array([text]), {"x": target})["x"]
        assert wrong is None, text
        assert back.equals(column.slice(0, 1)), text


def nested(found: list[int]) -> dict[str, Any]:
    return {"list": found, "map": [(number, number) for number in dict.fromkeys(found)], "struct": {"one": found[0]}}


@unhurried
@given(DAYS)
def test_dates_round_trip(days: int) -> None:
    """Converting a day's number to a date and back gives the same number, in any year."""
    assert times.days_of(*times.date_of(days)) == days


#: Texts, and what Spark 4's CSV source reads from each in the time zone Europe/Berlin: a date, a timestamp (shown in
#: that zone) and a timestamp without a zone. The connector reads days without dashes, zone names such as PST, and times
#: without a date differently than Spark, so the table has none.
SPARK_READS: list[tuple[str, str | None, str | None, str | None]] = [
    ("9999-12-31T23:59:59-05:00", "9999-12-31", "+10000-01-01 05:59:59", None),
    ("+10000-01-01T04:59:59Z", "+10000-01-01", "+10000-01-01 05:59:59", None),
    ("10000-01-01T00:00:00Z", "+10000-01-01", "+10000-01-01 01:00:00", None),
    ("+10000-01-01", "+10000-01-01", "+10000-01-01 00:00:00", "+10000-01-01 00:00:00"),
    ("10000-01-01", "+10000-01-01", "+10000-01-01 00:00:00", "+10000-01-01 00:00:00"),
    ("-0001-01-01", "-0001-01-01", "-0001-01-01 00:00:00", "-0001-01-01 00:00:00"),
    ("0000-01-01", "0000-01-01", "0000-01-01 00:00:00", "0000-01-01 00:00:00"),
    ("-0001-06-01T00:00:00Z", "-0001-06-01", "-0001-06-01 00:53:28", None),
    ("+294247-01-10T04:00:54.775807Z", "+294247-01-10", "+294247-01-10 05:00:54.775807", None),
    ("-290308-12-21T19:59:05.224192Z", "-290308-12-21", "-290308-12-21 20:52:33.224192", None),
    ("+294247-01-10T04:00:54.775808Z", "+294247-01-10", None, None),
    ("2020-01-01T00", "2020-01-01", "2020-01-01 00:00:00", "2020-01-01 00:00:00"),
    ("2020-01-01 00", "2020-01-01", "2020-01-01 00:00:00", "2020-01-01 00:00:00"),
    ("2020-01-01T00:00", "2020-01-01", "2020-01-01 00:00:00", "2020-01-01 00:00:00"),
    ("2020-01-01T00:00:00+18:01", "2020-01-01", None, None),
    ("2020-01-01T00:00:00+18:00", "2020-01-01", "2019-12-31 07:00:00", None),
    ("2020-01-01T00:00:00+02:00:30", "2020-01-01", "2019-12-31 22:59:30", None),
    ("2020-01-01T00:00:00+2", "2020-01-01", "2019-12-31 23:00:00", None),
    ("2020-01-01T00:00:00+0200", "2020-01-01", "2019-12-31 23:00:00", None),
    ("2020-01-01T00:00:00 +02:00", "2020-01-01", "2019-12-31 23:00:00", None),
    (" 2020-01-01 ", "2020-01-01", "2020-01-01 00:00:00", "2020-01-01 00:00:00"),
    (" 2020-01-01T00:00:00 ", "2020-01-01", "2020-01-01 00:00:00", "2020-01-01 00:00:00"),
    ("2020-01-01T00:00:00Z ", "2020-01-01", "2020-01-01 01:00:00", None),
    ("2020-1-1", "2020-01-01", "2020-01-01 00:00:00", "2020-01-01 00:00:00"),
    ("2020-01-01T1:2:3", "2020-01-01", "2020-01-01 01:02:03", "2020-01-01 01:02:03"),
    ("2020", "2020-01-01", "2020-01-01 00:00:00", "2020-01-01 00:00:00"),
    ("2020-01", "2020-01-01", "2020-01-01 00:00:00", "2020-01-01 00:00:00"),
    ("2020-01-01T", "2020-01-01", None, None),
    ("2020-01-01T00:00:00.1234567890", "2020-01-01", "2020-01-01 00:00:00.123456", "2020-01-01 00:00:00.123456"),
    ("2020-01-01T00:00:00.", "2020-01-01", "2020-01-01 00:00:00", "2020-01-01 00:00:00"),
    ("1582-10-10", "1582-10-10", "1582-10-10 00:00:00", "1582-10-10 00:00:00"),
    ("2020-02-30", None, None, None),
    ("2020-01-01T24:00:00", "2020-01-01", None, None),
    ("2020-01-01T00:00:60", "2020-01-01", None, None),
    ("2020-01-01T00:00:00 Europe/Paris", "2020-01-01", "2020-01-01 00:00:00", None),
    ("2020-01-01T00:00:00[Europe/Paris]", "2020-01-01", None, None),
    ("2020-01-01T00:00:00+02:00[Europe/Paris]", "2020-01-01", None, None),
    ("2020-01-01T00:00:00UTC", "2020-01-01", "2020-01-01 01:00:00", None),
    ("2020-01-01T00:00:00 CET", "2020-01-01", "2020-01-01 00:00:00", None),
    ("now", None, None, None),
    ("epoch", None, None, None),
    ("today", None, None, None),
    ("2020-01-01x", None, None, None),
    ("2020-01-01 x", "2020-01-01", None, None),
    ("-2020-01-01", "-2020-01-01", "-2020-01-01 00:00:00", "-2020-01-01 00:00:00"),
    ("02020-01-01", "2020-01-01", "2020-01-01 00:00:00", "2020-01-01 00:00:00"),
    ("12345-01-01", "+12345-01-01", "+12345-01-01 00:00:00", "+12345-01-01 00:00:00"),
    ("123456-01-01", "+123456-01-01", "+123456-01-01 00:00:00", "+123456-01-01 00:00:00"),
    ("1234567-01-01", "+1234567-01-01", None, None),
    ("+2020-01-01", "2020-01-01", "2020-01-01 00:00:00", "2020-01-01 00:00:00"),
    ("999999-12-31", "+999999-12-31", None, None),
    ("5881580-07-11", "+5881580-07-11", None, None),
    ("+5881580-07-11", "+5881580-07-11", None, None),
    ("+5881580-07-12", None, None, None),
    ("-5877641-06-23", "-5877641-06-23", None, None),
    ("-5877641-06-22", None, None, None),
    ("0001-01-01T00:00:00", "0001-01-01", "0001-01-01 00:00:00", "0001-01-01 00:00:00"),
    ("2020-01-01T00:00:00-00:00", "2020-01-01", "2020-01-01 01:00:00", None),
    ("2020-01-01T00:00:00+14:00:00", "2020-01-01", "2019-12-31 11:00:00", None),
    ("2020-01-01T00:00:00Z+1", "2020-01-01", None, None),
    ("2020-01-01T00:00:00GMT+2", "2020-01-01", "2019-12-31 23:00:00", None),
    ("2020-01-01T00:00:00UTC+02:00", "2020-01-01", "2019-12-31 23:00:00", None),
    ("\t2020-01-01", "2020-01-01", "2020-01-01 00:00:00", "2020-01-01 00:00:00"),
    ("2020-01-01\xa0", None, None, None),
    ("2020-01-01T00:00:00-18:00:00", "2020-01-01", "2020-01-01 19:00:00", None),
    (" 2020-01-01T00:00:00+18:00:01", "2020-01-01", None, None),
]
SPARK_READS_AS_DOUBLE: list[tuple[str, float | None]] = [
    (" 1", 1.0),
    ("1 ", 1.0),
    ("1d", 1.0),
    ("1D", 1.0),
    ("1f", 1.0),
    ("1F", 1.0),
    ("0x1p3", 8.0),
    ("NaN", math.nan),
    ("Inf", math.inf),
    ("-Inf", -math.inf),
    ("Infinity", math.inf),
    ("+Infinity", math.inf),
    ("-Infinity", -math.inf),
    ("1e5", 100000.0),
    ("1E+5", 100000.0),
    (".5", 0.5),
    ("5.", 5.0),
    ("+1", 1.0),
    ("1_000", None),
    ("1,000", None),
    ("", None),
    ("--1", None),
    ("1e", None),
    ("1e400", math.inf),
    ("-1e400", -math.inf),
    ("1L", None),
    ("\u0661", None),
    ("0x10", None),
    ("\t1", 1.0),
    ("1\xa0", None),
    ("+.5e-3", 0.0005),
    ("1.5d", 1.5),
    ("- 1", None),
    ("+-1", None),
    ("NaNd", None),
    ("1e5f", 100000.0),
]


@pytest.mark.parametrize(("text", "date", "moment", "local"), SPARK_READS)
def test_texts_are_the_dates_and_times_that_spark_reads(
    text: str, date: str | None, moment: str | None, local: str | None
) -> None:
    """Each text is read as the same date, timestamp and local timestamp as by Spark, or as null if Spark reads null."""
    column, zone = pa.array([text.encode()]), time_zones.info("Europe/Berlin")
    (days,) = numbers(conversion.from_text(column, pa.date32()))
    (micros,) = numbers(conversion.from_text(column, pa.timestamp("us", "Europe/Berlin")))
    (without,) = numbers(conversion.from_text(column, pa.timestamp("us")))
    shown = None if micros is None else times.local_text(micros + times.offset_at(micros, zone)).replace("T", " ")
    found = (
        None if days is None else times.date_text(days),
        shown,
        None if without is None else times.local_text(without).replace("T", " "),
    )
    assert found == (date, moment, local)


@pytest.mark.parametrize(("text", "number"), SPARK_READS_AS_DOUBLE)
def test_texts_are_the_doubles_that_spark_reads(text: str, number: float | None) -> None:
    """Each text is read as the same double as by Spark, also with blanks, Java suffixes, or in hexadecimal."""
    (found,) = conversion.from_text(pa.array([text.encode()]), pa.float64()).to_pylist()
    assert same([found], [number])


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
SCALARS = [
    *(pa.string(), pa.binary(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(
        pa.decimal128(10, 2),
        pa.decimal128(38, 18),
        pa.date32(),
        pa.timestamp("us"),
        pa.timestamp("us", "Asia/Kathmandu"),
    ),
    *(pa.time64("ns"), pa.duration("us"), pa.null()),
]


@pytest.mark.parametrize("kind", SCALARS, ids=str)
@unhurried
@given(texts=st.lists(st.one_of(st.none(), HOSTILE), max_size=4), epochs=st.sampled_from([None, 0, 10**6]))
def test_no_text_of_a_field_raises(kind: Any, texts: list[bytes | None], epochs: int | None) -> None:
    """Any bytes in a field are read as a value or as null, without an error."""
    assert len(conversion.from_text(pa.array(texts, pa.binary()), kind, epochs)) == len(texts)


@pytest.mark.parametrize("kind", [each for kind in SCALARS[:-1] for each in (kind, deep(kind))], ids=str)
@unhurried
@given(texts=st.lists(HOSTILE, max_size=4), wraps=st.booleans())
def test_no_json_raises(kind: Any, texts: list[bytes], wraps: bool) -> None:
    """Any bytes in place of JSON give one value or null per text, without an error."""
    whole = pa.array([b'{"x":' + text + b"}" if wraps else text for text in texts], pa.binary())
    column, wrong = json_values.members(whole, {"x": kind})["x"]
    assert len(column) == len(texts) == (len(texts) if wrong is None else len(wrong))
    if conversion.is_nested(kind):
        assert len(json_values.from_text(pa.array(texts, pa.binary()), kind)[0]) == len(texts)


def test_nans_are_the_same() -> None:
    """The helper `same` treats two NaNs as equal."""
    assert same([math.nan], [math.nan])
    assert not same([math.nan], [0.0])


@each_kind
@unhurried
@given(data=st.data())
def test_columns_are_written_as_their_values_are(kind: Any, of: st.SearchStrategy[int], data: st.DataObject) -> None:
    """Each value has the same text in a column as alone, regardless of the years of the other values."""
    usual = st.integers(-(10**5), 10**5).map(lambda number: number * (1 if kind == pa.date32() else 10**9))
    column = pa.array(data.draw(st.lists(st.one_of(st.none(), usual, of), max_size=6)), kind)
    alone = [column.slice(at, 1) for at in range(len(column))]
    for write in (conversion.to_text, json_writer.column):
        assert write(column).to_pylist() == [write(single)[0].as_py() for single in alone]


def test_json_is_written_alike_by_arrow_and_one_at_a_time() -> None:
    """Timestamps in time zones with odd offsets have the same JSON from Arrow and from the
    conversion of single values.
    """
    for zone in (None, "UTC", "Africa/Monrovia", "Australia/Lord_Howe", "Pacific/Apia"):
        kind = pa.timestamp("us", zone)
        column = pa.array([*range(-(10**15), 2 * 10**15, 7 * 10**12 + 500_001), 0, 10**6], pa.int64()).cast(kind)
        write = json_writer.writer(kind)
        assert json_writer.column(column).to_pylist() == [write(value) for value in column.cast(pa.int64()).to_pylist()]
