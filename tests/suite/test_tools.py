"""The programs that tests start: each is installed by .ci/run and named on a page."""

from __future__ import annotations

import re

import pytest

from tests import ROOT
from tests.suite import tools

#: Packages that every Debian has (dpkg marks them as essential).
ESSENTIAL = {"util-linux", "dash", "bash", "sed", "coreutils", "grep"}


def test_a_missing_program_skips_or_fails_and_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without REQUIRE_REDIS the test is skipped, with it the test fails; both messages name program and package."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("REQUIRE_REDIS", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"redis-cli.*redis-tools"):
        tools.needed("redis-cli")
    monkeypatch.setenv("REQUIRE_REDIS", "1")
    with pytest.raises(pytest.fail.Exception, match=r"redis-cli.*redis-tools"):
        tools.needed("redis-cli")


def test_environment_variables_precede_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """REDIS_SERVER and JAVA_HOME take precedence over PATH."""
    monkeypatch.setenv("REDIS_SERVER", "/opt/redis/server")
    monkeypatch.setenv("JAVA_HOME", "/opt/jdk")
    assert (tools.path_of("redis-server"), tools.path_of("java")) == ("/opt/redis/server", "/opt/jdk/bin/java")


def test_ci_and_documentation_list_every_program() -> None:
    """Programs that are not part of every Debian are installed by .ci/run, and listed with their package."""
    ci = (ROOT / ".ci" / "run").read_text()
    page = (ROOT / "docs" / "design" / "working-on-it.md").read_text()
    optional = {program: package for program, package in tools.PACKAGES.items() if package not in ESSENTIAL}
    installed = dict(re.findall(r"^\s*need ([\w-]+) ([\w-]+)$", ci, re.MULTILINE))
    assert optional.items() <= installed.items()
    rows = [line for line in page.splitlines() if line.startswith("* `")]
    for program, package in optional.items():
        assert any(f"`{program}`" in row and f"`{package}`" in row for row in rows), program
