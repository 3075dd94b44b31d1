"""Growth of commands on the core: four times as many arguments cost about four times as much."""

from __future__ import annotations

import pytest

from tests.growth.cases import Case, cases
from tests.growth.measuring import on_core

#: Numbers of arguments; a quadratic command needs 20 milliseconds and more for the greater one.
_FEW, _MANY = 250, 1_000
#: Seconds below which a result is accepted, and maximum growth for four times the arguments (quadratic: 16).
_FAST, _GROWTH = 0.01, 8


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name.replace(" ", "-"))
def test_the_cost_is_proportional_to_the_number_of_arguments(case: Case) -> None:
    """A command whose repeated argument is given four times as often takes less than eight times as long."""
    many = on_core(case, _MANY)
    few = on_core(case, _FEW) if many > _FAST else many
    for _ in range(2):  # Another process may have disturbed the measurement.
        if many > max(_FAST, _GROWTH * few):
            few, many = min(few, on_core(case, _FEW)), min(many, on_core(case, _MANY))
    assert many <= max(_FAST, _GROWTH * few), (
        f"{_FEW:,} arguments: {few * 1000:.1f} ms, {_MANY:,}: {many * 1000:.1f} ms"
    )
