"""The generated tables of the reference are current."""

from __future__ import annotations

import pytest

from scripts import engine_docs, error_docs, metrics_docs, option_docs, rules_docs
from scripts.generated import Part


@pytest.mark.parametrize(
    ("part", "written"),
    [
        pytest.param(option_docs.PART, option_docs.written(), id="options"),
        pytest.param(option_docs.CLASS_PART, option_docs.options_class(), id="options as types"),
        pytest.param(error_docs.PART, error_docs.written(), id="errors"),
        pytest.param(rules_docs.PART, rules_docs.written(), id="rules"),
        pytest.param(metrics_docs.PART, metrics_docs.written(), id="metrics"),
        pytest.param(engine_docs.COMMANDS_PART, engine_docs.commands(), id="commands"),
        pytest.param(engine_docs.LEFT_OUT_PART, engine_docs.left_out(), id="left out"),
        pytest.param(engine_docs.DIRECTIVES_PART, engine_docs.directives(), id="directives"),
    ],
)
def test_the_tables_are_current(part: Part, written: str) -> None:
    """The tables equal the output of `scripts/option_docs.py`, `error_docs.py`, `engine_docs.py` and so on."""
    page = part.page.read_text()
    assert part.replaced(page, written) == page
