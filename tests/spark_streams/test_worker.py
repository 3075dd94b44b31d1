"""The worker process: modules are out of the garbage collector's sight, once, and only there."""

from __future__ import annotations

import gc
import sys
from types import ModuleType, SimpleNamespace

import pytest

from spark_streams import worker
from spark_streams.source import PystreamsDataSource


def test_modules_are_frozen_in_a_worker_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of a task freezes loaded objects in Spark's worker, again when more was loaded, and never elsewhere.

    So does creating the data source, which each planning process does.
    """
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(len(sys.modules)))
    monkeypatch.setattr(worker, "_modules", 0)
    worker.spare_modules()
    assert not frozen
    main = ModuleType("__main__")
    monkeypatch.setattr(main, "__spec__", SimpleNamespace(name="pyspark.daemon"))
    monkeypatch.setitem(sys.modules, "__main__", main)
    worker.spare_modules()
    worker.spare_modules()
    assert len(frozen) == 1
    monkeypatch.setitem(sys.modules, "loaded_later", ModuleType("loaded_later"))
    worker.spare_modules()
    assert frozen[1] == frozen[0] + 1
    monkeypatch.setattr(worker, "_modules", 0)
    PystreamsDataSource({})
    assert len(frozen) == 3
