"""Registration of the source with a session, on every release of Spark."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.errors import AnalysisException

from spark_streams import register
from spark_streams.errors import explained


class _RefusalError(AnalysisException):
    """Stand-in for an error of Spark's JVM with a condition."""

    def __init__(self, condition: str) -> None:
        super().__init__(condition)
        self._condition = condition

    def getCondition(self) -> str:
        return self._condition


def _session(condition: str) -> Any:
    """Return a stand-in for a session that refuses to register a source."""

    def refuse(_source: type) -> None:
        raise _RefusalError(condition)

    context = SimpleNamespace(master="local[2]", pythonExec="python3")
    return SimpleNamespace(dataSource=SimpleNamespace(register=refuse), sparkContext=context, _jvm=MagicMock())


@pytest.mark.parametrize("python", [None, "/somewhere/python"])
def test_a_source_that_is_already_registered_is_accepted(python: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark 4.0's error for a source that is already registered is ignored; any other error is raised."""
    if python is None:
        monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    else:
        monkeypatch.setenv("PYSPARK_PYTHON", python)
    session = _session("DATA_SOURCE_ALREADY_EXISTS")
    register(session)
    assert session.sparkContext.pythonExec == "python3"
    with pytest.raises(AnalysisException):
        register(_session("DATA_SOURCE_NOT_FOUND"))


def test_an_old_spark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With pyspark 3, the error names the installed version and the required one."""
    monkeypatch.setattr("pyspark.__version__", "3.5.9")
    refused = explained(ImportError("cannot import name 'datasource' from 'pyspark.sql'", name="pyspark.sql"))
    assert str(refused) == (
        f"The Spark data source pystreams needs Spark 4.0 or later, but {sys.executable} has pyspark 3.5.9."
    )


def test_a_missing_spark_is_reported_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """If numpy and pyspark are missing, the error advises one command that installs both."""
    monkeypatch.setattr("spark_streams.errors.find_spec", lambda _name: None)
    assert "pip install 'pystreams-spark[spark]'" in str(explained(ModuleNotFoundError("No module", name="numpy")))
