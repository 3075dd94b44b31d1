"""`scripts/redis-suite`: parsing the output of a unit."""

from __future__ import annotations

import pytest

from scripts import redis_suite

_OUTPUT = """Starting test server at port 21079
[ok]: XADD can add entries into a stream (1 ms)
[err]: XADD with MAXLEN in tests/unit/type/stream.tcl
Expected '1' to be equal to '2'
[err]: XADD and ZADD in tests/unit/type/stream.tcl
ERR unknown command 'zadd': this engine stores streams; sorted sets need Redis or Valkey
[ok]: XLEN (0 ms)
"""


def test_cases_are_counted_and_failures_named() -> None:
    """The outcome has the number of passed cases, and the names of failed ones with the commands that they lack."""
    found = redis_suite.outcome_of("unit/type/stream", _OUTPUT)
    file = "tests/unit/type/stream.tcl"
    failed = ((f"XADD with MAXLEN in {file}", ""), (f"XADD and ZADD in {file}", "sorted sets"))
    assert (found.passed, found.failed, found.aborted) == (2, failed, "")
    assert found.line == "unit/type/stream: 2 passed, 2 failed"


@pytest.mark.parametrize(
    ("output", "aborted", "reason"),
    [("[exception]: no such command\n", "", "[exception]: no such command"), ("", "no end", "no end")],
)
def test_a_unit_that_ends_early_reports_the_reason(output: str, aborted: str, reason: str) -> None:
    """The line of a unit that ends early has the suite's exception, or the reason why the unit was aborted."""
    assert redis_suite.outcome_of("unit/x", output, aborted).line == f"unit/x: 0 passed, 0 failed, then: {reason}"
