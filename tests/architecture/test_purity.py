"""Imports between packages, and a core that does no I/O, reads no clock, uses no random numbers and does not log."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT

#: Modules that the core may use, of the standard library and others: arithmetic, containers, types, and byte codecs.
PURE = {
    "__future__",
    "abc",
    "array",
    "bisect",
    "collections",
    "collections.abc",
    "dataclasses",
    "enum",
    "fractions",
    "functools",
    "hashlib",
    "heapq",
    "hmac",
    "itertools",
    "math",
    "operator",
    "re",
    "struct",
    "typing",
    "weakref",
    "zlib",
    "numpy",
    "numpy.typing",
    "pyarrow",
    "xxhash",
    "zstandard",
}
#: Built-in functions that do I/O or run other code without an import.
FORBIDDEN_NAMES = {"open", "print", "input", "__import__", "eval", "exec", "breakpoint"}
#: The packages of the distribution.
TOPS = ("streamwire", "streamclient", "engine", "spark_streams", "pystreams")
#: For each package, our other packages and modules that it may import.
ARROWS = {
    "streamwire": set(),
    "streamclient": {"streamwire"},
    "engine/core": {"engine.text", "engine.settings", "engine.version", "streamwire"},
    "engine/wire": {"engine.text", "engine.core.protocol", "streamwire"},
    "engine/shell": {"engine", "streamwire"},
    "spark_streams": {"streamclient", "streamwire"},
    "pystreams": {"spark_streams", "streamclient", "streamwire"},
    "jobs": {"spark_streams", "pystreams", "streamclient", "streamwire"},
}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Yield the full names of a module's imports, including those under TYPE_CHECKING."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            assert node.module
            for alias in node.names:
                inside = (ROOT / node.module.replace(".", "/") / f"{alias.name}.py").exists()
                yield f"{node.module}.{alias.name}" if inside else node.module


def ours(name: str) -> bool:
    return name.partition(".")[0] in {
        "streamwire",
        "streamclient",
        "engine",
        "spark_streams",
        "pystreams",
        "jobs",
        "tests",
        "benchmarks",
    }


def within(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


#: Modules of the connector that plan reads from their arguments alone.
PLANS = [ROOT / "spark_streams" / "read" / name for name in ("query/planning.py", "ranges/plan.py")]
#: Modules of the client that a plan may use: plain data about streams, and the type of the object that it asks.
ASKS = {"streamclient.streams.states", "streamclient.streams.counting"}


@pytest.mark.parametrize("path", PLANS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_plan_is_pure(path: Path) -> None:
    """Modules that plan reads import nothing that does I/O, reads the clock, generates random numbers or logs."""
    assert [name for name in imports(path) if not ours(name) and name not in PURE] == []
    assert [name for name in imports(path) if within(name, {"streamclient"}) and name not in ASKS] == []


@pytest.mark.parametrize("path", modules("engine/core"), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_core_is_pure(path: Path) -> None:
    """Modules of the core import nothing that does I/O, reads the clock, generates random numbers or logs."""
    assert [name for name in imports(path) if not ours(name) and name not in PURE] == []
    names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
    assert names & FORBIDDEN_NAMES == set()


@pytest.mark.parametrize("package", list(ARROWS))
def test_imports_between_packages_go_one_way(package: str) -> None:
    """A package imports only itself and those of our packages that the layout allows."""
    own_name = package.replace("/", ".")
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(package)
        for name in imports(path)
        if ours(name) and not within(name, ARROWS[package] | {own_name})
    ]
    assert wrong == []


def test_the_engine_knows_nothing_of_spark() -> None:
    """No module of the engine imports pyspark, pandas or the connector."""
    wrong = [
        (str(path), name)
        for path in modules("engine")
        for name in imports(path)
        if within(name, {"pyspark", "pandas", "spark_streams", "jobs"})
    ]
    assert wrong == []
