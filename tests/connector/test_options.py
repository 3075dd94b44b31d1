"""Options and addresses: parsed once, refused with advice, and never showing a password."""

from __future__ import annotations

import pickle
import string

import pytest

from spark_streams import errors
from spark_streams.config import address, options
from spark_streams.config.address import Address, Embedded
from spark_streams.config.options import TABLE
from spark_streams.errors import OptionsError


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(address.VARIABLE, raising=False)


def test_defaults() -> None:
    """A read needs no more than the name of a stream."""
    said = options.read_options({"stream": "a,b"})
    assert said.streams == ("a,b",)
    assert said.address == Embedded(None)
    assert (said.group, said.consumer, said.max_entries, said.page_size) == (None, "spark", None, 10_000)


def test_names_are_read_in_whatever_case() -> None:
    """Spark folds the names of options; that changes nothing."""
    said = options.read_options({"STREAMS": "a, b", "maxentriespertrigger": "7", "startingoffsets": "earliest"})
    assert said.streams == ("a", "b")
    assert said.max_entries == 7
    assert said.starting is not None


def test_writing() -> None:
    """Options of a write are read; what Spark adds to them by itself is no reason to refuse them."""
    said = options.write_options({"stream": "s", "maxlen": "10", "approximate": "False", "checkpointlocation": "/c"})
    assert (said.stream, said.maxlen, said.approximate, said.nomkstream) == ("s", 10, False, False)


@pytest.mark.parametrize(
    ("raw", "name", "nearest"),
    [
        ({"stream": "s", "maxEntryPerTrigger": "1"}, "maxEntryPerTrigger", "maxEntriesPerTrigger"),
        ({"stream": "s", "startingoffset": "1"}, "startingoffset", "startingOffsets"),
        ({"stream": "s", "maxlen": "1"}, "maxlen", ""),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(raw: dict[str, str], name: str, nearest: str) -> None:
    """A misspelt option, or one of the other scope, is an error that names what may have been meant."""
    with pytest.raises(OptionsError, match=f"'{name}'.*nearest known name is '{nearest}") as caught:
        options.read_options(raw)
    assert caught.value.condition == "UNKNOWN_OPTION"


@pytest.mark.parametrize(
    ("raw", "condition"),
    [
        ({}, "MISSING_STREAM"),
        ({"stream": "a", "streams": "b"}, "CONFLICTING_OPTIONS"),
        ({"streams": "a,,b"}, "INVALID_OPTION"),
        ({"streams": "a,a"}, "INVALID_OPTION"),
        ({"stream": ""}, "INVALID_OPTION"),
        ({"stream": "a", "maxEntriesPerTrigger": "0"}, "INVALID_OPTION"),
        ({"stream": "a", "pageSize": "many"}, "INVALID_OPTION"),
        ({"stream": "a", "streamPattern": "b*"}, "CONFLICTING_OPTIONS"),
        ({"stream": "a", "startingOffsets": "1", "startingTimestamp": "1"}, "CONFLICTING_OPTIONS"),
        ({"stream": "a", "consume": "all"}, "INVALID_OPTION"),
        ({"stream": "a", "consume": "shared"}, "MISSING_GROUP"),
        ({"stream": "a", "group": "g", "consume": "shared", "ack": "none"}, "INVALID_OPTION"),
        ({"stream": "a", "group": "g", "consume": "shared", "maxDeliveries": "3"}, "INVALID_OPTION"),
        ({"stream": "a", "group": "g", "consume": "shared", "maxBytesPerTrigger": "3"}, "INVALID_OPTION"),
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
        ({"stream": "a", "url": "http://localhost"}, "INVALID_OPTION"),
    ],
)
def test_options_that_cannot_be_are_refused(raw: dict[str, str], condition: str) -> None:
    """Each contradiction has its own error."""
    with pytest.raises(OptionsError) as caught:
        options.read_options(raw)
    assert caught.value.condition == condition


@pytest.mark.parametrize(
    ("raw", "condition"),
    [
        ({"stream": "a", "minid": "1", "retentionMs": "1d"}, "CONFLICTING_OPTIONS"),
        ({"stream": "a", "keyColumn": "k"}, "INVALID_OPTION"),
        ({"stream": "a", "partitions": "2"}, "INVALID_OPTION"),
        ({"keyColumn": "k", "partitions": "2"}, "INVALID_OPTION"),
        ({"saveMode": "error"}, "INVALID_OPTION"),
        ({"stream": "a", "writeId": "w", "writeMode": "append"}, "CONFLICTING_OPTIONS"),
        ({"stream": "a", "refPolicy": "acked"}, "INVALID_OPTION"),
        ({"stream": "a", "refPolicy": "keep", "maxlen": "1"}, "INVALID_OPTION"),
        ({"stream": "a", "group": "g"}, "UNKNOWN_OPTION"),
    ],
)
def test_options_of_writes_that_cannot_be_are_refused(raw: dict[str, str], condition: str) -> None:
    """Writing, too, each contradiction has its own error."""
    with pytest.raises(OptionsError) as caught:
        options.write_options(raw)
    assert caught.value.condition == condition


def test_the_table_is_complete() -> None:
    """Every option has a meaning to print, and no two names differ only by case."""
    assert len({option.name.lower() for option in TABLE}) == len(TABLE)
    assert all(option.meaning.endswith(".") and option.scopes for option in TABLE)


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
    """Neither the address, nor the options that hold it, nor an error about it shows the password."""
    said = options.read_options({"stream": "s", "url": url})
    assert isinstance(said.address, Address)
    assert said.address.url == url
    for shown in (repr(said), str(said.address), repr(said.address), f"{said.address}"):
        assert "s3cret" not in shown
    assert pickle.loads(pickle.dumps(said)) == said


@pytest.mark.parametrize(
    "url", ["s3cret", "http://u:s3cret@h", "redis://u:s3cret@h:port", "redis://u:s3cret@", "redis://:s3cret@h:0"]
)
def test_a_wrong_url_is_refused_without_repeating_it(url: str) -> None:
    """A URL may be wrong because of its password, so an error does not show it."""
    with pytest.raises(OptionsError) as caught:
        address.parse(url)
    assert "s3cret" not in str(caught.value)


def test_the_environment_names_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """PYSTREAMS_URL counts where the option is missing, and only there."""
    monkeypatch.setenv(address.VARIABLE, "redis://there:1")
    assert str(address.given(None)) == "redis://there:1"
    assert str(address.given("redis://here:2")) == "redis://here:2"


@pytest.mark.parametrize("condition", sorted(errors.CONDITIONS))
def test_every_condition_has_an_id_a_text_and_advice(condition: str) -> None:
    """An error's message begins with its id, contains its parameters, ends with advice, and survives pickling."""
    entry = errors.CONDITIONS[condition]
    names = {name for _, name, _, _ in string.Formatter().parse(entry.text + entry.advice) if name}
    raised = errors.error(condition, **{name: f"<{name}>" for name in names})
    assert str(raised).startswith(f"[{condition}] ")
    assert all(f"<{name}>" in str(raised) for name in names)
    again = pickle.loads(pickle.dumps(raised))
    assert (type(again), str(again), again.condition) == (type(raised), str(raised), condition)


@pytest.mark.parametrize(("text", "milliseconds"), [("1500", 1500), ("250ms", 250), ("2s", 2000), ("15m", 900_000)])
def test_durations(text: str, milliseconds: int) -> None:
    """A duration is a number of milliseconds, or has a unit."""
    assert options.read_options({"stream": "s", "maxTriggerDelay": text}).max_delay == milliseconds
