"""Registering the source with a session, on every release of Spark."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from spark_streams import register
from spark_streams.requirements import explained


class _RefusalError(AnalysisException):
    """A stand-in for the replies of Spark's JVM."""

    def __init__(self, condition: str) -> None:
        super().__init__(condition)
        self._said = condition

    def getCondition(self) -> str:
        return self._said


def _session(condition: str) -> Any:
    """Stands for a session that refuses to register a source."""

    def refuse(_source: type) -> None:
        raise _RefusalError(condition)

    context = SimpleNamespace(master="local[2]", pythonExec="python3")
    return SimpleNamespace(dataSource=SimpleNamespace(register=refuse), sparkContext=context)


@pytest.mark.parametrize("python", [None, "/somewhere/python"])
def test_a_source_that_spark_has_found_by_itself_is_registered(
    python: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark 4.0 refuses to register it once more, which is no failure; another refusal is one."""
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
    """With pyspark 3, which has no Python data sources, the error says the version that is there and the one needed."""
    monkeypatch.setattr("pyspark.__version__", "3.5.9")
    refused = explained(ImportError("cannot import name 'datasource' from 'pyspark.sql'", name="pyspark.sql"))
    assert str(refused) == (
        f"The Spark data source pystreams needs Spark 4.0 or later, but {sys.executable} has pyspark 3.5.9."
    )


def test_a_missing_spark_comes_before_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """If numpy and pyspark are missing, one command installs both."""
    monkeypatch.setattr("spark_streams.requirements.find_spec", lambda _name: None)
    assert "pip install 'pystreams[spark]'" in str(explained(ModuleNotFoundError("No module", name="numpy")))
