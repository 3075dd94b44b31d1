"""Lower limits for tests, so that a few elements take the path of many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType

import pytest

#: Modules, each with constants and their values.
Limits = Iterable[tuple[ModuleType, Mapping[str, float]]]


def lower(monkeypatch: pytest.MonkeyPatch, limits: Limits) -> None:
    """Set these constants until the end of the test. Raises AttributeError if a module lacks one."""
    for module, values in limits:
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
