"""The programs that tests start: each is found by ``tests.suite.tools``, installed by .ci/run, and named on a page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests import ROOT
from tests.suite import tools

#: Packages that every Debian has (dpkg marks them as essential).
ESSENTIAL = {"util-linux", "dash", "bash", "sed", "coreutils", "grep"}
_STARTERS = {
    "run",
    "Popen",
    "call",
    "check_call",
    "check_output",
    "create_subprocess_exec",
    "create_subprocess_shell",
}
_FORBIDDEN = {"which", "system", "popen"}
_FORBIDDEN_PREFIXES = ("exec", "spawn", "posix_spawn")


def misuses(source: str) -> Iterator[str]:
    """Yield the places where a test finds or starts a program without ``tests.suite.tools``, as ``line: reason``."""
    tree = ast.parse(source)
    names = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("shutil", "subprocess", "os"):
            yield f"{node.lineno}: from {node.module} import: call it by the module's name, so that this test sees it"
        elif isinstance(node, ast.List) and node.elts and _text(node.elts[0]) in tools.PACKAGES:
            yield f"{node.lineno}: a command starts with the name {_text(node.elts[0])!r}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            module, name = ast.unparse(node.func.value), node.func.attr
            if (module == "shutil" and name == "which") or (
                module == "os" and (name in _FORBIDDEN or name.startswith(_FORBIDDEN_PREFIXES))
            ):
                yield f"{node.lineno}: {module}.{name}"
            elif module in ("subprocess", "asyncio") and name in _STARTERS:
                command = node.args[0] if node.args else None
                if isinstance(command, ast.Name):
                    command = names.get(command.id, command)
                if isinstance(command, ast.List | ast.Tuple) and command.elts:
                    command = command.elts[0]
                if command is None or _text(command) is not None:
                    yield f"{node.lineno}: {module}.{name} starts {ast.unparse(node)[:60]}"
                if any(keyword.arg == "shell" for keyword in node.keywords):
                    yield f"{node.lineno}: {module}.{name} with a shell"


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def test_tests_start_programs_only_with_tools() -> None:
    """No file in tests/ except tools.py calls shutil.which, starts a shell, or starts a program by a literal name."""
    suspect = re.compile(rf"subprocess|shutil|asyncio|\bos\b|\[[\"']({'|'.join(tools.PACKAGES)})[\"']")
    found = [
        f"{path.relative_to(ROOT)}:{misuse}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path.name != "tools.py" and "node_modules" not in path.parts
        if suspect.search(text := path.read_text())
        for misuse in misuses(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "shutil.which('redis-cli')",
        "from shutil import which",
        "from subprocess import run",
        "subprocess.run(['date', '+%s'])",
        "subprocess.run('ls')",
        "words = ['date', '+%s']; subprocess.run(words)",
        "subprocess.Popen(command, shell=True)",
        "command = ['redis-cli', '-p', str(port)]",
        "os.system(command)",
        "os.execv(path, words)",
        "asyncio.create_subprocess_exec('node')",
    ],
)
def test_the_scan_finds_each_misuse(source: str) -> None:
    """Each way of bypassing ``tests.suite.tools`` is found."""
    assert list(misuses(source))


@pytest.mark.parametrize(
    "source",
    [
        "subprocess.run([needed('redis-cli'), '-p', '1'])",
        "subprocess.run([sys.executable, '-c', 'pass'])",
        "subprocess.Popen(command, env={})",
        "client('cluster', 'setslot', '1', 'node', name)",
    ],
)
def test_the_scan_accepts_other_commands(source: str) -> None:
    """A program's path, this Python, and a command that was made elsewhere are accepted."""
    assert not list(misuses(source))


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
