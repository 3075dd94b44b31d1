"""Pickling of the data source object."""

from __future__ import annotations

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource

from spark_streams.source import PystreamsDataSource


class Renamed(PystreamsDataSource):
    """A user's source that is derived from `PystreamsDataSource`."""

    @classmethod
    def name(cls) -> str:
        return "renamed"


@pytest.mark.parametrize("kind", [PystreamsDataSource, Renamed])
def test_pickling_keeps_a_source(kind: type[DataSource]) -> None:
    """Pickling keeps the source's class, also a derived one, and its options."""
    found = cloudpickle.loads(cloudpickle.dumps(kind({"stream": "s", "url": "redis://localhost"})))
    assert (type(found), found.name()) == (kind, kind.name())
    assert dict(found.options) == {"stream": "s", "url": "redis://localhost"}
