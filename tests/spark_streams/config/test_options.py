"""Options, positions and addresses: parsed once, rejected with advice, and never shown with a password."""

from __future__ import annotations

import ast
import dataclasses
import pickle
import re
import string
from typing import Any

import pytest

from spark_streams import errors
from spark_streams.config import options, positions
from spark_streams.config.options import SECTIONS
from spark_streams.config.read import ReadOptions
from spark_streams.config.write import WriteOptions
from spark_streams.errors import OptionsError
from streamclient.config import connect
from streamclient.config.address import Address
from streamclient.config.connect import ConnectOptions
from streamclient.config.option import Option, options_of
from streamwire.stream_id import LAST, U64_MAX, ZERO, StreamId
from tests import ROOT


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(connect.URL, raising=False)


def test_names_are_case_insensitive() -> None:
    """Option names are case-insensitive, because Spark changes their case."""
    parsed = options.read_options({"STREAMS": "a, b", "maxentriespertrigger": "7", "startingoffsets": "earliest"})
    assert parsed.streams == ("a", "b")
    assert parsed.max_entries == 7
    assert parsed.starting.kinds == {"earliest"}


@pytest.mark.parametrize(
    ("raw", "condition"),
    [
        ({}, "MISSING_STREAM"),
        ({"stream": "a", "streams": "b"}, "CONFLICTING_OPTIONS"),
        ({"stream": "a", "consumerPrefix": "p", "consumer": "q"}, "CONFLICTING_OPTIONS"),
        ({"streams": "a,,b"}, "INVALID_OPTION"),
        ({"streams": "a,a"}, "INVALID_OPTION"),
        ({"stream": ""}, "INVALID_OPTION"),
        ({"stream": "a", "maxEntriesPerTrigger": "0"}, "INVALID_OPTION"),
        ({"stream": "a", "pageSize": "many"}, "INVALID_OPTION"),
        ({"stream": "a", "streamPattern": "b*"}, "CONFLICTING_OPTIONS"),
        ({"stream": "a", "startingOffsets": "1", "startingTimestamp": "1"}, "CONFLICTING_OPTIONS"),
        ({"stream": "a", "consume": "all"}, "INVALID_OPTION"),
        ({"stream": "a", "consume": "shared"}, "MISSING_GROUP"),
        ({"stream": "a", "group": "g", "consume": "shared", "ack": "cursor"}, "INVALID_OPTION"),
        ({"stream": "a", "group": "g", "consume": "shared", "maxDeliveries": "3"}, "INVALID_OPTION"),
        ({"stream": "a", "claimIdleMs": "3"}, "INVALID_OPTION"),
        ({"stream": "a", "deadLetterStream": "d"}, "INVALID_OPTION"),
        (
            {"stream": "a", "group": "g", "consume": "shared", "maxDeliveries": "3", "deadLetterStream": "a"},
            "INVALID_OPTION",
        ),
        ({"stream": "a", "minEntriesPerTrigger": "3", "maxEntriesPerTrigger": "2"}, "INVALID_OPTION"),
        ({"stream": "a", "maxTriggerDelay": "soon"}, "INVALID_OPTION"),
        ({"stream": "a", "startingTimestamp": "yesterday"}, "INVALID_OPTION"),
        ({"stream": "a", "startingTimestamp": "-1"}, "INVALID_OPTION"),
        ({"stream": "a", "startingOffsets": "group"}, "MISSING_GROUP"),
        ({"stream": "a", "valueFormat": "debezium", "inferSchema": "true"}, "CONFLICTING_OPTIONS"),
        ({"stream": "a", "valueFormat": "debezium", "nullValue": "x"}, "CONFLICTING_OPTIONS"),
        ({"stream": "a", "valueFormat": "json", "nullValue": "x"}, "CONFLICTING_OPTIONS"),
        ({"stream": "a", "url": "http://localhost"}, "INVALID_OPTION"),
        ({"stream": "a", "url": "redis://localhost", "tls.caFile": "/ca.crt"}, "INVALID_OPTION"),
        ({"stream": "a", "tls.keyPassword": "s3cret"}, "INVALID_OPTION"),
        ({"stream": "a", "url": "redis://localhost", "embedded.dir": "d"}, "INVALID_OPTION"),
    ],
)
def test_invalid_read_options_are_rejected(raw: dict[str, str], condition: str) -> None:
    """Invalid and contradictory options of a read have specific errors."""
    with pytest.raises(OptionsError) as caught:
        options.read_options(raw)
    assert caught.value.condition == condition
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "condition"),
    [
        ({"stream": "a", "keyColumn": "k"}, "INVALID_OPTION"),
        ({"stream": "a", "valueFormat": "debezium"}, "INVALID_OPTION"),
        ({"stream": "a", "partitions": "2"}, "INVALID_OPTION"),
        ({"keyColumn": "k", "partitions": "2"}, "INVALID_OPTION"),
        ({"stream": "a", "writeId": "w", "writeMode": "append"}, "CONFLICTING_OPTIONS"),
        ({"stream": "a", "group": "g"}, "OPTION_ELSEWHERE"),
        ({"path": "a", "stream": "b"}, "CONFLICTING_OPTIONS"),
    ],
)
def test_invalid_write_options_are_rejected(raw: dict[str, str], condition: str) -> None:
    """Invalid and contradictory options of a write have specific errors."""
    with pytest.raises(OptionsError) as caught:
        options.write_options(raw)
    assert caught.value.condition == condition


DECLARED = [option for section in SECTIONS for option in options_of(section).values()]


def test_every_option_has_a_unique_name_and_a_description() -> None:
    """Option names are unique regardless of case, and every option has a description."""
    names = [name.lower() for option in DECLARED for name in option.names]
    assert len(set(names)) == len(names)
    assert all(option.meaning.endswith(".") for option in DECLARED)
    assert all(section.__doc__ for section in SECTIONS)


def test_every_option_is_documented_and_every_field_is_an_option() -> None:
    """The documented options are exactly the parsed ones, and each field belongs to an option."""
    parsed = [option for cls in (ConnectOptions, ReadOptions, WriteOptions) for option in options_of(cls).values()]
    assert {option.name for option in parsed} == {option.name for option in DECLARED}
    for cls in (ConnectOptions, ReadOptions, WriteOptions):
        assert {field.name for field in dataclasses.fields(cls)} - {"address", "session_zone"} == options_of(cls).keys()


def test_every_option_is_used() -> None:
    """The code of the connector or of its client refers to the field of each option."""
    packages = (ROOT / "spark_streams", ROOT / "streamclient")
    trees = [ast.parse(path.read_text()) for package in packages for path in package.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    named = {node.value for node in nodes if isinstance(node, ast.Constant)}  # names given to `getattr`
    fields = {field for section in SECTIONS for field in options_of(section)}
    assert fields - read - named == set()


@pytest.mark.parametrize("option", DECLARED, ids=lambda option: option.name)
def test_a_documented_default_is_the_default(option: Option) -> None:
    """A documented default that is a value, parsed as the option, gives the option's default."""
    if option.shown_default() and not option.default_text:
        assert option.parse(option.shown_default()) == option.default


def test_texts_name_existing_options() -> None:
    """Every word in descriptions and errors that looks like an option is an existing option."""
    names = {name for option in DECLARED for name in option.names}
    others = {"exactlyOnce", "foreachBatch", "outputMode", "saveAsTable"}
    texts = [option.meaning for option in DECLARED]
    texts += [f"{condition.text} {condition.advice}" for condition in errors.CONDITIONS.values()]
    pattern = r"\b(?:tls\.)?(?:schemaRegistry\.\w+|[a-z]+(?:[A-Z][a-z]+)+)\b"
    found = {word for text in texts for word in re.findall(pattern, text)}
    assert found - names - others == set()


@pytest.mark.parametrize(
    ("kafkas", "value", "field", "expected"),
    [
        ("subscribe", "a,b", "streams", ("a", "b")),
        ("maxOffsetsPerTrigger", "5", "max_entries", 5),
        ("minOffsetsPerTrigger", "5", "min_entries", 5),
        ("maxRecordsPerPartition", "5", "max_per_partition", 5),
        ("startingOffsetsByTimestamp", "1000", "starting_timestamp", "1000"),
        ("endingOffsetsByTimestamp", "1000", "ending_timestamp", "1000"),
        ("consumerPrefix", "p", "consumer", "p"),
        ("failOnDataLoss", "false", "fails", False),
        ("minPartitions", "5", "min_partitions", 5),
        ("maxTriggerDelay", "5s", "max_delay", 5000),
    ],
)
def test_names_of_kafkas_source_mean_the_same_here(kafkas: str, value: str, field: str, expected: Any) -> None:
    """Option names of Spark's Kafka source are accepted with the same meaning."""
    given = {kafkas: value} if kafkas == "subscribe" else {"stream": "s", kafkas: value}
    assert getattr(options.read_options(given), field) == expected


@pytest.mark.parametrize(("name", "advice"), [(name, advice) for name, _, advice in options.INSTEAD.values()])
def test_options_of_other_connectors_are_answered(name: str, advice: str) -> None:
    """An option of spark-redis, Kafka or files without an equivalent is an error with advice."""
    with pytest.raises(OptionsError, match=re.escape(advice)) as caught:
        options.read_options({"stream": "s", name: "x"})
    assert caught.value.condition == "FOREIGN_OPTION"


@pytest.mark.parametrize(
    ("parse", "option", "value", "streaming"),
    [
        (options.read_options, "endingTimestamp", "1700000000000", True),
        (options.read_options, "endingOffsets", "latest", True),
        (options.read_options, "maxEntriesPerTrigger", "5", False),
        (options.read_options, "maxOffsetsPerTrigger", "5", False),
        (options.read_options, "consume", "shared", False),
        (options.read_options, "group", "g", False),
        (options.write_options, "writeId", "w", True),
    ],
)
def test_options_of_the_other_kind_of_query_are_rejected(parse: Any, option: str, value: str, streaming: bool) -> None:
    """An option for batches is rejected in a streaming query and the reverse; the error has the user's name and value,
    and a default value is accepted.
    """
    given = {"stream": "s", **({"group": "g"} if option == "consume" else {}), option: value}
    parse(given, streaming=not streaming)
    options.write_options({"stream": "s", "overwriteUnread": "true"}, streaming=True)
    with pytest.raises(OptionsError, match=f"Option '{option}' is '{value}', but .*remove it"):
        parse(given, streaming=streaming)


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:s3cret@host:7000/2",
        "rediss://:s3cret@host",
        "unix://user:s3cret@/tmp/s",
        "redis://host?password=s3cret",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    """Neither the address nor the options show the password in their text."""
    parsed = options.read_options({"stream": "s", "url": url})
    assert isinstance(parsed.address, Address)
    assert parsed.address.url == url
    for shown in (repr(parsed), str(parsed.address), repr(parsed.address), f"{parsed.address}"):
        assert "s3cret" not in shown
    assert pickle.loads(pickle.dumps(parsed)) == parsed


@pytest.mark.parametrize(
    "url", ["s3cret", "http://u:s3cret@h", "redis://u:s3cret@h:port", "redis://u:s3cret@", "redis://:s3cret@h:0"]
)
def test_a_wrong_url_is_refused_without_repeating_it(url: str) -> None:
    """The error for an invalid URL does not contain the URL, which may contain a password."""
    with pytest.raises(OptionsError) as caught:
        options.read_options({"stream": "s", "url": url})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("condition", sorted(errors.CONDITIONS))
def test_every_condition_has_an_id_a_text_and_advice(condition: str) -> None:
    """An error's message starts with its ID, contains its parameters, and is unchanged by pickling."""
    entry = errors.CONDITIONS[condition]
    names = {name for _, name, _, _ in string.Formatter().parse(entry.text + entry.advice) if name}
    raised = errors.error(condition, **{name: f"<{name}>" for name in names})
    assert str(raised).startswith(f"[{condition}] ")
    assert all(f"<{name}>" in str(raised) for name in names)
    again = pickle.loads(pickle.dumps(raised))
    assert (type(again), str(again), again.condition) == (type(raised), str(raised), condition)


@pytest.mark.parametrize(
    "name",
    [
        "checkpointLocation",
        "queryName",
        "asyncProgressTrackingEnabled",
        "asyncProgressTrackingCheckpointIntervalMs",
        "_asyncProgressTrackingOverrideSinkSupportCheck",
    ],
)
def test_sparks_own_options_of_a_streaming_write_are_accepted(name: str) -> None:
    """Options of writeStream that Spark evaluates itself are not unknown options of the sink."""
    assert options.write_options({"stream": "s", name: "true"}, streaming=True).stream == "s"
    options.check_names([name])
    with pytest.raises(OptionsError, match="UNKNOWN_OPTION"):
        options.write_options({"stream": "s", f"{name}x": "true"}, streaming=True)


@pytest.mark.parametrize(
    ("text", "end", "after"),
    [
        ("5-3", False, StreamId(5, 2)),
        ("5", False, StreamId(4, U64_MAX)),
        ("(5-3", False, StreamId(5, 3)),
        ("(5", False, StreamId(5, 0)),
        ("0", False, ZERO),
        ("5-3", True, StreamId(5, 3)),
        ("5", True, StreamId(5, U64_MAX)),
        ("(5-3", True, StreamId(5, 2)),
        ("(5", True, StreamId(5, U64_MAX - 1)),
        ("18446744073709551615-18446744073709551615", True, LAST),
    ],
)
def test_positions_are_read_as_xrange_reads_them(text: str, end: bool, after: StreamId) -> None:
    """As in XRANGE, IDs are inclusive, `(` makes them exclusive, and a missing sequence number is the lowest in a start
    and the highest in an end.
    """
    assert positions.parse_ids(text, ("s",), end=end).get("s", positions.Position("latest")).after == after


def test_positions_for_each_stream() -> None:
    """A JSON object gives each stream its own position."""
    parsed = positions.parse_ids('{"a": "earliest", "b": "7-1"}', ("a", "b"))
    assert parsed.each == {"a": positions.Position("earliest"), "b": positions.Position("id", StreamId(7, 0))}


@pytest.mark.parametrize(
    "text", ["", "soon", "{", '{"a": "earliest"}', '{"a": "1", "b": "2", "c": "3"}', '{"a": "x", "b": "1"}']
)
def test_invalid_positions_are_rejected(text: str) -> None:
    """Malformed positions, and JSON with more or fewer streams than the query, are errors that name the option."""
    with pytest.raises(OptionsError, match="startingOffsets"):
        options.read_options({"streams": "a,b", "startingOffsets": text})


@pytest.mark.parametrize(
    ("text", "end", "kind"),
    [("-", False, "earliest"), ("$", False, "latest"), ("$", True, "latest"), ("+", True, "latest")],
)
def test_signs_of_commands_are_accepted(text: str, end: bool, kind: str) -> None:
    """`-`, `$` and `+` have the meaning that they have in XRANGE and XREAD."""
    assert positions.parse_ids(text, ("s",), end=end).kinds == {kind}


def test_positions_with_partitions_are_rejected() -> None:
    """Kafka's JSON with partitions is an error with the correct form."""
    with pytest.raises(OptionsError, match=r'startingTimestamp.* no partitions, so write \{"a": \.\.\.'):
        options.read_options({"subscribe": "a", "startingOffsetsByTimestamp": '{"a": {"0": 1000}}'})


@pytest.mark.parametrize("text", ["2024", "2024-06", "20240601", "(2024-06"])
@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp"])
def test_dates_are_never_taken_for_ids_or_milliseconds(option: str, text: str) -> None:
    """A year, a month, or a date without dashes is an error, not a time in January 1970."""
    with pytest.raises(OptionsError, match=option):
        options.read_options({"stream": "a", option: text})
