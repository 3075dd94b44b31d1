"""Rules for the source: imports, a core without I/O, documented constants and packages, reasons for large functions.

Each file is parsed once, and the tests look at what was found in all of them.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT

#: Modules that the core may use, of the standard library and others: arithmetic, containers, types, and byte codecs.
_PURE = {
    *(
        "__future__",
        "abc",
        "array",
        "bisect",
        "collections",
        "collections.abc",
        "copy",
        "dataclasses",
        "enum",
        "fractions",
    ),
    *(
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
        "warnings",
        "weakref",
    ),
    *("zlib", "numpy", "numpy.typing", "pyarrow", "xxhash", "zstandard"),
}
#: Built-in functions that do I/O or run other code without an import.
_FORBIDDEN_NAMES = {"open", "print", "input", "__import__", "eval", "exec", "breakpoint"}
#: The packages of the distribution, and the other folders with code.
_PACKAGES = ("streamwire", "streamclient", "engine", "spark_streams", "pystreams")
_FOLDERS = (*_PACKAGES, "jobs", "benchmarks", "scripts", "tests")
#: For each package, our other packages and modules that it may import.
_ARROWS = {
    "streamwire": set(),
    "streamclient": {"streamwire"},
    "engine/core": {"engine.text", "engine.settings", "engine.version", "streamwire"},
    "engine/wire": {"engine.text", "engine.core.protocol", "streamwire"},
    "engine": {"streamwire"},
    "spark_streams": {"streamclient", "streamwire"},
    "pystreams": {"spark_streams", "streamclient", "streamwire"},
    "jobs": {"spark_streams", "pystreams", "streamclient", "streamwire"},
}
#: Modules of the connector that plan reads from their arguments alone.
_PLANS = ("spark_streams/read/query/planning.py",)
#: Modules of the client that a plan may use: plain data about streams, and the type of the object that it asks.
_ASKS = {"streamclient.streams.states", "streamclient.streams.counting"}
_LINES, _ATTRIBUTES = 60, 12
_REASON = re.compile(r"# A single (?:class|function), because")
_ROLE = re.compile(r":[a-z]+:" + "`")


@dataclass(frozen=True)
class Source:
    """Facts of one file that the rules check; `path` is relative to the checkout.

    `undocumented`: lines of strings below constants; `large`: long functions, and classes with many mutable attributes,
    without a reason.
    """

    path: str
    text: str
    docstring: str
    imports: tuple[str, ...]
    names: frozenset[str]
    undocumented: tuple[int, ...]
    large: tuple[str, ...]


@functools.cache
def sources() -> list[Source]:
    """Return all Python files of the checkout."""
    paths = [
        path for top in _FOLDERS for path in sorted((ROOT / top).rglob("*.py")) if "node_modules" not in path.parts
    ]
    assert len(paths) > 500
    return [_source(path) for path in paths]


def _source(path: Path) -> Source:
    text = path.read_text()
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    return Source(
        str(path.relative_to(ROOT)),
        text,
        ast.get_docstring(tree) or "",
        tuple(name for node in nodes for name in _imported(node)),
        frozenset(node.id for node in nodes if isinstance(node, ast.Name)),
        tuple(line for node in nodes for line in _strings_below(node)),
        tuple(
            node.name
            for node in nodes
            if _is_large(node) and not _REASON.search(ast.get_source_segment(text, node) or "")
        ),
    )


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield the full names of the modules that a statement imports, also under TYPE_CHECKING."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.module, "a relative import"
        for alias in node.names:
            inside = (ROOT / node.module.replace(".", "/") / f"{alias.name}.py").exists()
            yield f"{node.module}.{alias.name}" if inside else node.module


def _strings_below(node: ast.AST) -> Iterator[int]:
    """Yield the lines of strings that stand below the assignment of a constant or attribute."""
    body = getattr(node, "body", None)
    for above, below in itertools.pairwise(body if isinstance(body, list) else ()):
        if (
            isinstance(above, ast.Assign | ast.AnnAssign)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            yield below.lineno


def _is_large(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return (node.end_lineno or 0) - node.lineno >= _LINES
    return isinstance(node, ast.ClassDef) and len(set(_changed(node))) > _ATTRIBUTES


def _changed(node: ast.ClassDef) -> Iterator[str]:
    """Yield the attributes of `self` that methods other than `__init__` assign."""
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name != "__init__":
            for each in ast.walk(method):
                targets = each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)]
                for target in (part for assigned in targets if assigned is not None for part in ast.walk(assigned)):
                    if isinstance(target, ast.Attribute) and getattr(target.value, "id", None) == "self":
                        yield target.attr


def _of(*folders: str) -> list[Source]:
    return [source for source in sources() if source.path.startswith(tuple(f"{folder}/" for folder in folders))]


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in {*_FOLDERS} - {"scripts"}


def _within(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def test_the_core_and_plans_are_pure() -> None:
    """The core, and modules that plan reads, do no I/O, read no clock, use no random numbers and do not log."""
    plans = [source for source in sources() if source.path in _PLANS]
    assert len(plans) == len(_PLANS)
    impure = [
        (source.path, name)
        for source in (*_of("engine/core"), *plans)
        for name in source.imports
        if not _is_ours(name) and name not in _PURE
    ]
    asked = [name for plan in plans for name in plan.imports if _within(name, {"streamclient"}) and name not in _ASKS]
    used = [(source.path, *found) for source in _of("engine/core") if (found := source.names & _FORBIDDEN_NAMES)]
    assert (impure, asked, used) == ([], [], [])


def test_imports_between_packages_go_one_way() -> None:
    """A package imports only itself and those of our packages that the layout allows; the engine ignores Spark."""
    wrong = [
        f"{source.path} imports {name}"
        for package, allowed in _ARROWS.items()
        for source in _of(package)
        for name in source.imports
        if (_is_ours(name) and not _within(name, allowed | {package.replace("/", ".")}))
        or (source.path.startswith("engine/") and _within(name, {"pyspark", "pandas"}))
    ]
    assert wrong == []


def test_conditions_of_errors_are_in_one_table_per_package() -> None:
    """Each package defines its error conditions in one module."""
    makers = {
        source.path
        for source in _of("streamwire", "streamclient", "spark_streams", "pystreams", "jobs", "benchmarks")
        if re.search(r"from streamwire.errors import [^\n]*Condition", source.text)
    }
    assert makers == {"streamclient/errors.py", "spark_streams/errors.py", "pystreams/errors.py"}


def test_packages_and_constants_are_documented() -> None:
    """Each `__init__` has a docstring, and constants have `#:` comments above, not strings below."""
    assert [each.path for each in sources() if each.path.endswith("__init__.py") and not each.docstring] == []
    assert [f"{each.path}:{line}" for each in sources() for line in each.undocumented] == []


def test_docstrings_have_no_roles() -> None:
    """Names in docstrings and comments are in backticks, without Sphinx roles."""
    assert [source.path for source in sources() if _ROLE.search(source.text)] == []


def test_large_functions_and_classes_say_why() -> None:
    """A function above sixty lines, or a class with over twelve mutable attributes, has a comment `# A single ...`."""
    assert [f"{source.path}: {name}" for source in _of(*_PACKAGES, "jobs") for name in source.large] == []
