"""Growth of commands on the core: four times as many arguments cost about four times as much."""

from __future__ import annotations

import pytest

from tests.growth.cases import Case, cases
from tests.growth.measuring import on_core

#: Numbers of arguments; a quadratic command needs seconds for the greater one.
_FEW, _MANY = 1_000, 4_000
#: Seconds below which a result is accepted, and maximum growth for four times the arguments (quadratic: 16).
_FAST, _GROWTH = 0.06, 8


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name.replace(" ", "-"))
def test_the_cost_is_proportional_to_the_number_of_arguments(case: Case) -> None:
    """A command whose repeated argument is given four times as often takes less than eight times as long."""
    many = on_core(case, _MANY)
    if many > _FAST:
        few = min(on_core(case, _FEW) for _ in range(3))
        many = min(many, on_core(case, _MANY), on_core(case, _MANY))
        assert many < _GROWTH * few, f"{_FEW:,} arguments: {few * 1000:.1f} ms, {_MANY:,}: {many * 1000:.1f} ms"
