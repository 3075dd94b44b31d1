"""How scripts/redis-py-suite reads reports of pytest and classifies differences; nothing is downloaded or run here."""

from __future__ import annotations

import pytest

from scripts.redis_py_suite import Case, outcomes, report, subject

JUNIT = """<testsuites><testsuite>
<testcase file="tests/a.py" classname="tests.a.TestA" name="test_one[pool]"/>
<testcase file="tests/a.py" classname="tests.a" name="test_two"><failure message="boom&#10;more">t</failure></testcase>
<testcase file="tests/a.py" classname="tests.a" name="test_three"><skipped message="too old"/></testcase>
<testcase file="tests/b.py" classname="tests.b" name="test_four"/>
<testcase file="tests/b.py" classname="tests.b" name="test_four"><error message="teardown">trace</error></testcase>
</testsuite></testsuites>"""


def test_a_case_has_its_node_id_and_its_worst_outcome() -> None:
    """The ID of a case includes its class, and an error in the teardown makes a passed case fail."""
    assert outcomes(JUNIT) == {
        "tests/a.py::TestA::test_one[pool]": Case("tests/a.py", "passed"),
        "tests/a.py::test_two": Case("tests/a.py", "failed", "boom\nmore"),
        "tests/a.py::test_three": Case("tests/a.py", "skipped", "too old"),
        "tests/b.py::test_four": Case("tests/b.py", "failed", "teardown"),
    }


@pytest.mark.parametrize(
    ("message", "about"),
    [
        ("unknown command 'zadd': this engine stores streams; sorted sets need Redis or Valkey", "sorted sets"),
        ("unknown command 'client TRACKING': this engine stores streams; caches need Redis or Valkey", "caches"),
        ("RedisError: GEORADIUS command doesn't exist in Redis commands", "geo commands"),
        ("redis.exceptions.ResponseError: unknown command 'SETT', with args", ""),
        ("AssertionError: assert 1 == 2", ""),
        ("", ""),
    ],
)
def test_errors_of_unsupported_commands_have_a_subject(message: str, about: str) -> None:
    """Errors of unsupported commands have their family as subject, and others have none."""
    assert subject(message) == about


def test_only_differences_are_listed() -> None:
    """A failure on both servers does not count; a test skipped on redis-server counts as passing there."""
    geo = Case(
        "tests/a.py",
        "failed",
        "unknown command 'geoadd': this engine stores streams; geo commands need Redis or Valkey",
    )
    engine = {
        "left_out": geo,
        "both": Case("tests/a.py", "failed", "no port 6379"),
        "new": Case("tests/b.py", "failed", "assert 1 == 2\nmore"),
        "good": Case("tests/b.py", "passed"),
    }
    redis = {
        "left_out": Case("tests/a.py", "passed"),
        "both": Case("tests/a.py", "failed"),
        "new": Case("tests/b.py", "skipped"),
        "good": Case("tests/b.py", "failed"),
    }
    lines, unexplained = report(engine, redis)
    assert unexplained == 1
    assert lines == [
        "tests/a.py: 0 passed, 2 failed; redis-server: 1 passed, 1 failed",
        "tests/b.py: 1 passed, 1 failed; redis-server: 0 passed, 1 failed",
        "",
        "Left out on purpose: 1",
        "  geo commands: 1",
        "Failed on both: 1",
        "  both",
        "Failed on redis-server only: 1",
        "  good",
        "Unexplained: 1",
        "  new: assert 1 == 2",
        "Passed: engine 1, redis-server 1 of 4",
    ]
