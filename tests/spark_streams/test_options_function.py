"""`spark_streams.options`: a typed function that checks options and returns them as a dict."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta

import spark_streams
from scripts import option_docs
from spark_streams.config.options import SECTIONS
from streamclient.config.option import options_of


def test_values_of_python_become_options_of_spark() -> None:
    """Booleans, numbers and lists become text, a dict JSON, a datetime ISO 8601, a timedelta a duration. Underscores in
    names become dots, and None omits an option.
    """
    assert spark_streams.options(
        streams=["a", "b"],
        group=None,
        trimOnCommit=True,
        pageSize=100,
        tls_caFile="ca.pem",
        startingOffsets={"a": "5-0", "b": "6-0"},
        endingTimestamp=datetime(2026, 11, 24, tzinfo=UTC),
        retryTimeoutMs=timedelta(seconds=20),
    ) == {
        "streams": "a,b",
        "trimOnCommit": "true",
        "pageSize": "100",
        "tls.caFile": "ca.pem",
        "startingOffsets": '{"a": "5-0", "b": "6-0"}',
        "endingTimestamp": "2026-11-24T00:00:00+00:00",
        "retryTimeoutMs": "20000ms",
    }


def test_every_option_is_in_the_signature() -> None:
    """The signature has all declared options, so notebooks can complete them."""
    declared = {option.name.replace(".", "_") for section in SECTIONS for option in options_of(section).values()}
    assert set(inspect.signature(spark_streams.options).parameters) == declared
    assert "valueFormat: Literal[" in option_docs.options_class()
