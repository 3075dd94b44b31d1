"""The data source object between Spark's processes."""

from __future__ import annotations

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource

from spark_streams.source import PystreamsDataSource


class Renamed(PystreamsDataSource):
    """A user's source derived from this one."""

    @classmethod
    def name(cls) -> str:
        return "renamed"


@pytest.mark.parametrize("kind", [PystreamsDataSource, Renamed])
def test_a_source_is_the_same_in_another_process(kind: type[DataSource]) -> None:
    """Its class, also a derived one, and its options survive pickling."""
    found = cloudpickle.loads(cloudpickle.dumps(kind({"stream": "s", "url": "redis://localhost"})))
    assert (type(found), found.name()) == (kind, kind.name())
    assert dict(found.options) == {"stream": "s", "url": "redis://localhost"}
