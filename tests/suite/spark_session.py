"""The Spark session of the tests: the test kit's, whose workers import the checkout.

tests/conftest.py imports the fixture, for all tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pystreams.testing.session import session
from tests import ROOT


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a session on two cores, whose workers use this Python and import the checkout."""
    os.environ["PYTHONPATH"] = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH")) if part)
    with session(tmp_path_factory.mktemp("warehouse"), registers=False) as made:
        yield made
