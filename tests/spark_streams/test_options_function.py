"""`spark_streams.options`: a typed function that checks options and returns them as a dict."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta

import spark_streams
from scripts import option_docs
from spark_streams.config.options import SECTIONS
from streamclient.config.option import options_of


def test_values_of_python_become_options_of_spark() -> None:
    """Booleans, numbers and lists become text, underscores in names become dots, and None omits an option."""
    assert spark_streams.options(
        streams=["a", "b"], group=None, trimOnCommit=True, pageSize=100, tls_caFile="ca.pem", retryTimeoutMs="20"
    ) == {
        "streams": "a,b",
        "trimOnCommit": "true",
        "pageSize": "100",
        "tls.caFile": "ca.pem",
        "retryTimeoutMs": "20",
    }


def test_values_of_the_standard_library_become_text() -> None:
    """A dict becomes JSON, a datetime becomes ISO 8601, and a timedelta becomes a duration."""
    assert spark_streams.options(
        stream="a",
        startingOffsets={"a": "5-0"},
        endingTimestamp=datetime(2026, 11, 24, tzinfo=UTC),
        retryTimeoutMs=timedelta(seconds=20),
    ) == {
        "stream": "a",
        "startingOffsets": '{"a": "5-0"}',
        "endingTimestamp": "2026-11-24T00:00:00+00:00",
        "retryTimeoutMs": "20000ms",
    }


def test_every_option_is_in_the_signature() -> None:
    """The signature has all declared options, so notebooks can complete them."""
    declared = {option.name.replace(".", "_") for section in SECTIONS for option in options_of(section).values()}
    assert set(inspect.signature(spark_streams.options).parameters) == declared
    assert "valueFormat: Literal[" in option_docs.options_class()
