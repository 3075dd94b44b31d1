"""Spark for the tests of jobs: the session that all Spark tests share."""

from tests.spark_session import spark  # noqa: F401 - a fixture
