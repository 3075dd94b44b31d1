"""Registering the source with a session, on every release of Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from spark_streams import register


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
